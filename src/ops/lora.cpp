#include "ops/lora.h"

#include "ir/graph.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/moe.h"
#include "ops/samples.h"
#include "ops/shape_ops.h"

namespace rlx {

void LoraLinear::infer(InferContext& c) const {
  checks::operand_count(c, 4 + bias + per_row, "x, w, a, b, then bias and ids by the flags");
  checks::plain(c, 0, DType::f32, 2);
  checks::weight(c, 1);
  const Dim k = c.in(0).dim(1), n = c.in(1).dim(0);
  checks::has_columns(c, 1, k, "the columns of x");
  const int rank = per_row ? 3 : 2;
  checks::weight(c, 2, rank);
  checks::weight(c, 3, rank);
  const Shape &a = c.in(2), &b = c.in(3);
  checks::has_columns(c, 2, k, "the columns of x");
  checks::has_columns(c, 3, a.dim(-2), "the rank of a");
  checks::same(c, b.dim(-2), n, [&] {
    return fmt::format("b {}: expected the {} rows of w, found {}", checks::dims_text(b), n.text(),
                       b.dim(-2).text());
  });
  if (per_row) {
    checks::has_rows(c, 3, a.dim(0), "adapters of a");
    checks::vector(c, {ids_at(), "ids"}, DType::i32, c.in(0).dim(0), "the rows of x");
  }
  if (bias) checks::vector(c, {bias_at(), "bias"}, DType::f32, n, "the rows of w");
  c.out(c.in(0).with_dim(1, n));
}

void LoraLinear::decompose(Body& b) const {
  const Value x = b.in(0);
  const Value base = bias ? b.b(Linear{.bias = true}, x, b.in(1), b.in(bias_at()))
                          : b.b(Linear{}, x, b.in(1));
  if (!per_row) {
    const Value low = b.b(Scale{.factor = scale}, b.b(Linear{}, x, b.in(2)));
    b.ret({b.b(Linear{.residual = true}, low, b.in(3), base)});
    return;
  }
  // An adapter is an expert, a row has one.
  const Value ids = b.b(expand_dims(b.shape(ids_at()), 1), b.in(ids_at()));
  const Value low = b.b(Scale{.factor = scale}, b.b(ExpertLinear{}, x, ids, b.in(2)));
  const Value high = b.b(ExpertLinear{}, low, ids, b.in(3));
  b.ret({b.b(Add{}, base, b.b(squeeze(b.b.shape(high), 1), high))});
}

std::vector<Sample> LoraLinear::samples() {
  using samples::normal;
  constexpr std::int64_t kInner = 32, kLow = 4;
  std::vector<Sample> list;
  for (const bool per_row : {false, true})
    for (const bool bias : {false, true})
      for (const float scale : {1.0f, -0.25f}) {
        const std::size_t turn = list.size();
        const std::int64_t rows = samples::deal(samples::kRows, turn),
                           n = samples::deal(samples::kWidths, turn);
        const DType w = turn % 2 == 0 ? DType::f32 : DType::q8_0;
        std::vector<SampleOperand> in = {normal({rows, kInner}), normal({n, kInner}, w, 0.2f)};
        if (per_row) {
          in.push_back(normal({3, kLow, kInner}, DType::f32, 0.2f));
          in.push_back(normal({3, n, kLow}, DType::f32, 0.5f));
        } else {
          in.push_back(normal({kLow, kInner}, DType::f32, 0.2f));
          in.push_back(normal({n, kLow}, DType::f32, 0.5f));
        }
        if (bias) in.push_back(normal({n}));
        if (per_row) {
          std::vector<std::int32_t> ids;
          for (std::int64_t r = 0; r < rows; ++r)
            ids.push_back(static_cast<std::int32_t>((r * 2 + 1) % 4) - 1);
          in.push_back(samples::given(std::move(ids)));
        }
        list.push_back(make_sample(fmt::format("{}{}_scale_by_{}_{}", per_row ? "per_row" : "one",
                                               bias ? "_bias" : "", scale, rlx::name(w)),
                                   LoraLinear{scale, bias, per_row}, std::move(in), kInner));
      }
  return list;
}

}  // namespace rlx
