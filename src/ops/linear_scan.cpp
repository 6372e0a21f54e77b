#include "ops/linear_scan.h"

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/recurrent_state.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// The first dims of operand i are those of operand `of`; axis j of i against axis map[j] of it.
void check_scan_dims(InferContext& c, int i, int of, std::initializer_list<int> map) {
  const Shape &x = c.in(i), &full = c.in(of);
  int axis = 0;
  for (const int to : map) {
    checks::same(c, x.dim(axis), full.dim(to), [&] {
      return fmt::format("{} {} does not fit {} {}: {} and {} differ", c.operand(i), checks::dims_text(x),
                         c.operand(of), checks::dims_text(full), x.dim(axis).text(), full.dim(to).text());
    });
    ++axis;
  }
}

}  // namespace

void LinearScan::infer(InferContext& c) const {
  checks::operand_count(c, 3);
  checks::plain(c, 0, DType::f32, 3);
  checks::plain(c, 1, DType::f32, 3);
  checks::plain(c, 2, DType::f32, 2);
  check_scan_dims(c, 0, 1, {0, 1, 2});
  check_scan_dims(c, 2, 1, {0, 2});
  c.out(c.in(1));
}

void LinearScan::reference(const KernelArgs& args) const {
  const TensorView &a = args.in[0], &x = args.in[1], &start = args.in[2], &y = args.out[0];
  const std::int64_t seq = x.dims[1], n = x.dims[2];
  const auto part = access::part_of(args, x.dims[0] * n);
  for (std::int64_t lane = part.begin; lane < part.end; ++lane) {
    double h = access::load(start, lane / n, lane % n);
    for (std::int64_t step = 0; step < seq; ++step) {
      const std::int64_t row = lane / n * seq + (reverse ? seq - 1 - step : step);
      h = recurrent::rounded(y, access::load(a, row, lane % n) * h + access::load(x, row, lane % n));
      access::store(y, row, lane % n, h);
    }
  }
}

void DeltaScan::infer(InferContext& c) const {
  checks::operand_count(c, 5);
  for (int i : {0, 1}) checks::plain(c, i, DType::f32, 2);
  for (int i : {2, 4}) checks::plain(c, i, DType::f32, 3);
  checks::plain(c, 3, DType::f32, 4);
  for (int i : {0, 1}) check_scan_dims(c, i, 3, {0, 1});
  check_scan_dims(c, 2, 3, {0, 1, 2});
  check_scan_dims(c, 4, 3, {0, 2, 3});
  c.out(c.in(3));
}

void DeltaScan::reference(const KernelArgs& args) const {
  const TensorView &k = args.in[2], &x = args.in[3], &start = args.in[4], &y = args.out[0];
  const std::int64_t seq = x.dims[1], keys = x.dims[2], values = x.dims[3];
  const auto part = access::part_of(args, x.dims[0] * values);  // columns of states
  std::vector<double> s(static_cast<std::size_t>(keys)), key(s.size());
  for (std::int64_t lane = part.begin; lane < part.end; ++lane) {
    const std::int64_t batch = lane / values, v = lane % values;
    for (std::int64_t i = 0; i < keys; ++i) s[static_cast<std::size_t>(i)] = access::load(start, batch * keys + i, v);
    for (std::int64_t step = 0; step < seq; ++step) {
      const std::int64_t row = batch * seq + (reverse ? seq - 1 - step : step);
      const double decay = access::load_at(args.in[0], row), beta = access::load_at(args.in[1], row);
      access::load_row(k, row, key.data());
      double recalled = 0;
      for (std::size_t i = 0; i < s.size(); ++i) {
        s[i] *= decay;
        recalled += key[i] * s[i];
      }
      for (std::size_t i = 0; i < s.size(); ++i) {
        const std::int64_t at = row * keys + static_cast<std::int64_t>(i);
        s[i] = recurrent::rounded(y, s[i] - beta * recalled * key[i] + access::load(x, at, v));
        access::store(y, at, v, s[i]);
      }
    }
  }
}

using samples::normal;

std::vector<Sample> LinearScan::samples() {
  std::vector<Sample> list;
  for (const std::int64_t seq : {1, 2, 9})
    for (const bool reverse : {false, true}) {
      const std::int64_t n = samples::deal(samples::kWidths, list.size());
      list.push_back(make_sample(fmt::format("{}x{}{}", seq, n, reverse ? "_reverse" : ""), LinearScan{reverse},
                                 {normal({2, seq, n}, DType::f32, 0.5f), normal({2, seq, n}), normal({2, n})}, seq));
    }
  return list;
}

std::vector<Sample> DeltaScan::samples() {
  std::vector<Sample> list;
  constexpr std::int64_t kKeys[] = {1, 5, 16};
  for (const std::int64_t seq : {1, 2, 9})
    for (const bool reverse : {false, true}) {
      const std::int64_t keys = samples::deal(kKeys, list.size()), n = samples::deal(samples::kWidths, list.size());
      list.push_back(make_sample(fmt::format("{}x{}x{}{}", seq, keys, n, reverse ? "_reverse" : ""),
                                 DeltaScan{reverse},
                                 {normal({2, seq}, DType::f32, 0.5f), normal({2, seq}, DType::f32, 0.5f),
                                  normal({2, seq, keys}, DType::f32, 0.5f), normal({2, seq, keys, n}),
                                  normal({2, keys, n})},
                                 seq + keys));
    }
  return list;
}

}  // namespace rlx
