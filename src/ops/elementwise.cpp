#include "ops/elementwise.h"

#include <cmath>

#include "ops/checks.h"
#include "ops/loops.h"
#include "ops/samples.h"

namespace rlx {
namespace {

void infer_broadcast(InferContext& c) {
  checks::operand_count(c, 2);
  for (int i : {0, 1}) {
    c.dtype(i, {DType::f32});
    checks::plain(c, i, DType::f32, c.in(i).rank());
  }
  c.out(checks::broadcast(c, {c.in(0), "a"}, {c.in(1), "b"}));
}

void infer_unary(InferContext& c) {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::plain(c, 0, DType::f32, c.in(0).rank());
  c.out(c.in(0));
}

}  // namespace

void Add::infer(InferContext& c) const { infer_broadcast(c); }
void Add::reference(const KernelArgs& a) const {
  loops::binary(a, [](double x, double y) { return x + y; });
}

void Mul::infer(InferContext& c) const { infer_broadcast(c); }
void Mul::reference(const KernelArgs& a) const {
  loops::binary(a, [](double x, double y) { return x * y; });
}

void Activation::infer(InferContext& c) const { infer_unary(c); }
void Activation::reference(const KernelArgs& a) const {
  loops::unary(a, [&](double x) { return apply(act, x); });
}

void Scale::infer(InferContext& c) const { infer_unary(c); }
void Scale::reference(const KernelArgs& a) const {
  loops::unary(a, [&](double x) { return x * double{factor}; });
}

void Softcap::infer(InferContext& c) const {
  if (!(cap > 0.0f)) c.fail("cap: expected a value above 0, found {}", cap);
  infer_unary(c);
}
void Softcap::reference(const KernelArgs& a) const {
  loops::unary(a, [&](double x) { return double{cap} * std::tanh(x / double{cap}); });
}

void Cast::infer(InferContext& c) const {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32, DType::f16, DType::bf16, DType::i32});
  checks::plain(c, 0, c.in(0).dtype, c.in(0).rank());
  if (to != DType::f32 && to != DType::f16 && to != DType::bf16)
    c.fail("to: expected f32, f16 or bf16, found {}", rlx::name(to));
  c.out(c.in(0).with(to));
}
void Cast::reference(const KernelArgs& a) const {
  loops::unary(a, [](double x) { return x; });
}

using samples::normal;

namespace {

template <typename Op>
std::vector<Sample> broadcast_samples() {
  std::vector<Sample> list;
  for (std::size_t i = 0; i < 7; ++i) {
    const std::int64_t rows = samples::kRows[i],
                       n = i % 2 == 0 ? 16 * rows + 7 : samples::deal(samples::kWidths, i);
    list.push_back(
        make_sample(fmt::format("{}x{}", rows, n), Op{}, {normal({rows, n}), normal({rows, n})}));
  }
  list.push_back(make_sample("row", Op{}, {normal({5, 48}), normal({48})}));
  list.push_back(make_sample("row_first", Op{}, {normal({100}), normal({3, 100})}));
  list.push_back(make_sample("column", Op{}, {normal({17, 33}), normal({17, 1})}));
  list.push_back(make_sample("outer", Op{}, {normal({5, 1}), normal({1, 17})}));
  list.push_back(make_sample("scalar", Op{}, {normal({8, 96}), normal({1})}));
  list.push_back(make_sample("middle", Op{}, {normal({3, 1, 7}), normal({2, 7})}));
  list.push_back(make_sample(
      "large", Op{}, {normal({2, 40}, DType::f32, 1e30f), normal({2, 40}, DType::f32, 1e-30f)}));
  return list;
}

}  // namespace

std::vector<Sample> Add::samples() { return broadcast_samples<Add>(); }
std::vector<Sample> Mul::samples() { return broadcast_samples<Mul>(); }

std::vector<Sample> Activation::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const Act act : {Act::none, Act::silu, Act::gelu_tanh, Act::gelu, Act::relu})
    for (const float scale : {1.0f, 0.01f, 30.0f}) {
      const std::int64_t rows = samples::deal(samples::kRows, turn),
                         n = samples::deal(samples::kWidths, turn) + 32;
      list.push_back(
          make_sample(fmt::format("{}_{}x{}_scale_{}", kActNames[static_cast<std::size_t>(act)],
                                  rows, n, scale),
                      Activation{.act = act}, {normal({rows, n}, DType::f32, scale)}));
      ++turn;
    }
  return list;
}

std::vector<Sample> Scale::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const float factor : {0.25f, -2.5f, 0.0f, 24.0f, 1e6f}) {
    const std::int64_t rows = samples::deal(samples::kRows, turn),
                       n = samples::deal(samples::kWidths, turn++);
    list.push_back(make_sample(fmt::format("by_{}_{}x{}", factor, rows, n), Scale{.factor = factor},
                               {normal({rows, n})}));
  }
  return list;
}

std::vector<Sample> Softcap::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const float cap : {30.0f, 50.0f, 0.5f})
    for (const float scale : {1.0f, 200.0f}) {
      const std::int64_t rows = samples::deal(samples::kRows, turn),
                         n = samples::deal(samples::kWidths, turn) + 16;
      ++turn;
      list.push_back(make_sample(fmt::format("cap_{}_scale_{}_{}x{}", cap, scale, rows, n),
                                 Softcap{.cap = cap}, {normal({rows, n}, DType::f32, scale)}));
    }
  return list;
}

std::vector<Sample> Cast::samples() {
  std::vector<Sample> list;
  std::size_t turn = 0;
  for (const DType from : {DType::f32, DType::f16, DType::bf16})
    for (const DType to : {DType::f32, DType::f16, DType::bf16})
      for (const float scale : {1.0f, 1e-6f, 4e4f}) {  // also subnormal and infinite f16
        const std::int64_t rows = samples::deal(samples::kRows, turn),
                           n = samples::deal(samples::kWidths, turn) + 16;
        ++turn;
        list.push_back(make_sample(
            fmt::format("{}_to_{}_scale_{}_{}x{}", rlx::name(from), rlx::name(to), scale, rows, n),
            Cast{.to = to}, {normal({rows, n}, from, scale)}));
      }
  list.push_back(make_sample("i32_to_f32", Cast{.to = DType::f32}, {samples::integers({5, 17}, 1e6f, DType::i32)}));
  return list;
}

}  // namespace rlx
