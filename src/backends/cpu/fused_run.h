// FusedLinear as a worker runs it: its products, and its input made by all workers together.
#pragma once

#include <sched.h>

#include "backends/cpu/fused_input.h"
#include "backends/cpu/fused_linear.h"
#include "backends/cpu/matmul_product.h"
#include "ir/kernel_args.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

inline Product product(const KernelArgs& a, int weights) {
  Product p{};
  p.x_type = a.in[0].dtype;
  p.w_type = a.in[1].dtype;
  p.x = rows_of(a.in[0]);
  p.y = rows_of(a.out[0]);
  p.n = a.in[1].dims[0];
  p.k = a.in[1].dims[1];
  p.weights = weights;
  for (int i = 0; i < weights; ++i) p.w[i] = static_cast<const std::byte*>(a.in[1 + i].data);
  p.thread = a.thread;
  p.threads = a.threads;
  p.scratch = a.scratch;
  return p;
}

/// The products of a FusedLinear over one input.
struct FusedRun {
  const FusedLinear& op;
  const KernelArgs& a;
  Product parts[3];
  std::int64_t panels = 0;  ///< of all products
};

inline FusedRun fused_run(const FusedLinear& op, const KernelArgs& a) {
  FusedRun run{op, a, {}};
  for (int i = 0; i < op.products(); ++i) {
    KernelArgs of = a;
    const TensorView in[3] = {a.in[0], a.in[1 + i], a.in[op.gated ? 2 : 1]};
    of.in = in;
    of.out = a.out + i;
    Product& p = run.parts[i];
    p = product(of, op.gated ? 2 : 1);
    if (op.to != DType::f32) p.x_type = op.to;
    p.act = op.act;
    if (const int at = op.bias_at(i); at >= 0) p.bias = static_cast<const float*>(a.in[at].data);
    if (op.residual) p.residual = rows_of(a.in[op.residual_at()]);
    if (op.prologue()) p.scratch += fused_rows_scratch(p.x_type, p.k);
    run.panels += panel_count(p.n);
  }
  return run;
}

/// Rows [begin, end) of the input, as the products read them, at `to`.
inline void make_rows(const FusedRun& run, std::int64_t begin, std::int64_t end, std::byte* to) {
  const Product& p = run.parts[0];
  const std::int64_t stride = fused_row_bytes(p.x_type, p.k);
  auto* line = reinterpret_cast<float*>(run.a.scratch + up64(kOwnRows * stride));
  const auto* norm = run.op.norm ? static_cast<const float*>(run.a.in[run.op.norm_at()].data) : nullptr;
  for (std::int64_t r = begin; r < end; ++r)
    make_input_row(run.op, reinterpret_cast<const float*>(p.x.at(r)), norm, p.k, to + r * stride, line);
}

/// The places of many int8 rows made ready for each product; neighbours with weights of one type share them.
inline void fused_ready(const FusedRun& run, std::byte* (&ready)[3]) {
  const Product* const p = run.parts;
  const std::int64_t rows = p[0].x.count;
  std::int64_t at = fused_shared_bytes(p[0].x_type, p[0].k, rows);
  for (int i = 0; i < run.op.products(); ++i) {
    ready[i] = i > 0 && p[i].w_type == p[i - 1].w_type ? ready[i - 1] : run.a.shared + at;
    at += fused_ready_bytes(p[i].x_type, p[i].w_type, p[i].k, rows);
  }
}

/// Counts what of a whole is done by this worker; returns when all of it is, and what the others wrote can be read.
inline void meet(std::int32_t* done, std::int64_t mine, std::int64_t all) {
  if (__atomic_add_fetch(done, static_cast<std::int32_t>(mine), __ATOMIC_ACQ_REL) == all) return;
  // A worker that has no core yet needs ours.
  for (int spins = 0; __atomic_load_n(done, __ATOMIC_ACQUIRE) < all; ++spins)
    spins < 2000 ? _mm_pause() : static_cast<void>(sched_yield());
}

// Runs of rows for each worker: short ones, since cores differ in speed, yet few enough for one counter.
constexpr std::int64_t kRowRuns = 8;

/// Calls made(first, last) for each run of the units [0, units) that this worker takes: of its own part first, which it
/// finds in its caches afterwards (FusedSweep), then of the others'.
template <typename F>
void take_runs(const KernelArgs& a, std::int64_t units, F made) {
  const std::int64_t parts = min64(a.threads, kMostTerritories), fair = units / (kRowRuns * a.threads),
                     step = fair > 1 ? fair : 1;
  for (std::int64_t i = 0; i < parts; ++i) {
    const std::int64_t at = (a.thread * parts / a.threads + i) % parts, last = units * (at + 1) / parts;
    auto* const counter = reinterpret_cast<std::int32_t*>(a.shared + (1 + at) * kLineBytes) + 1;
    for (;;) {
      const std::int64_t first = units * at / parts + __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED) * step;
      if (first >= last) break;
      made(first, min64(first + step, last));
    }
  }
}

/// The input as the products read it. Many rows are made by the workers that are there, in runs of multiples of
/// `unit`: for each run the worker that takes it calls made(rows, begin, end) before anybody goes on.
template <typename F>
Rows fused_rows(const FusedRun& run, std::int64_t unit, F made) {
  Rows rows = run.parts[0].x;
  if (!run.op.prologue()) return rows;
  const KernelArgs& a = run.a;
  rows.stride = fused_row_bytes(run.parts[0].x_type, run.parts[0].k);
  if (rows.count <= kOwnRows) {
    make_rows(run, 0, rows.count, a.scratch);
    rows.data = a.scratch;
    return rows;
  }
  rows.data = a.shared + kFusedCounters;
  std::int64_t mine = 0;
  take_runs(a, (rows.count + unit - 1) / unit, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t begin = first * unit, end = min64(last * unit, rows.count);
    make_rows(run, begin, end, rows.data);
    made(rows, begin, end);
    mine += end - begin;
  });
  meet(reinterpret_cast<std::int32_t*>(a.shared), mine, rows.count);
  return rows;
}
inline Rows fused_rows(const FusedRun& run) {
  return fused_rows(run, 1, [](const Rows&, std::int64_t, std::int64_t) {});
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
