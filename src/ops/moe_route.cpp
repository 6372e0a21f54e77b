// The choice of experts (moe.h): shapes, and the body in primitive ops.
#include <cmath>

#include "ir/graph.h"
#include "ops/arithmetic.h"
#include "ops/checks.h"
#include "ops/elementwise.h"
#include "ops/moe.h"
#include "ops/reduction.h"
#include "ops/samples.h"
#include "ops/select.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

void check_groups(InferContext& c, const MoeRoute& op, std::int64_t experts) {
  checks::attribute(c, "groups", op.groups, 1, static_cast<double>(experts));
  if (op.groups == 1) return;
  if (experts % op.groups != 0)
    c.fail("groups: expected a divisor of the {} experts, found {}", experts, op.groups);
  const std::int64_t size = experts / op.groups;
  checks::attribute(c, "group_limit", op.group_limit, 1, op.groups);
  checks::attribute(c, "group_top", op.group_top, 1, static_cast<double>(size));
  checks::attribute(c, "k", op.k, 1, static_cast<double>(size * op.group_limit));
}

// Scores with -inf at the experts of the groups that are out.
Value limit_groups(Body& b, const MoeRoute& op, Value scores) {
  const Shape shape = b.b.shape(scores);
  const Dim rows = shape.dim(0), size = shape.dim(1).constant().value() / op.groups;
  const Value grouped = b.b(Reshape{.dims = {rows, Dim(op.groups), size}}, scores);
  const Value sums = b.b(Reduce{}, b.b(TopK{.k = op.group_top}, grouped));
  const Value best = b.b(TopK{.k = op.group_limit}, sums);
  const Value hot = b.b(OneHot{.depth = Dim(op.groups)}, b.b.result(best, 1));
  // log(1) = 0 and log(0) = -inf.
  const Value out = b.b(Unary{.fn = UnaryFunction::log},
                        b.b(Reduce{.kind = Reduction::max, .axis = 1}, hot));
  const Value masked = b.b(Add{}, grouped, b.b(expand_dims(b.b.shape(out), 2), out));
  return b.b(Reshape{.dims = {rows, shape.dim(1)}}, masked);
}

constexpr float kLeastSum = 1e-20f;

}  // namespace

void MoeRoute::infer(InferContext& c) const {
  checks::operand_count(c, 1 + bias, bias ? "logits, bias" : "logits");
  checks::plain(c, 0, DType::f32, 2);
  const auto experts = c.in(0).dim(1).constant();
  if (!experts) c.fail("logits: expected a known number of experts, found {}", c.in(0).text());
  checks::attribute(c, "k", k, 1, static_cast<double>(*experts));
  checks::attribute(c, "factor", double{factor}, -checks::kNoLimit, checks::kNoLimit);
  check_groups(c, *this, *experts);
  if (bias) checks::vector(c, 1, DType::f32, *experts, "experts");
  const Shape chosen({c.in(0).dim(0), Dim(k)}, DType::i32);
  c.out(chosen);
  c.out(chosen.with(DType::f32));
}

void MoeRoute::decompose(Body& b) const {
  Value scores = b.in(0);
  if (scoring == Scoring::softmax) scores = b.b(Softmax{}, scores);
  if (scoring == Scoring::sigmoid) scores = b.b(Unary{.fn = UnaryFunction::sigmoid}, scores);
  Value choice = bias ? b.b(Add{}, scores, b.in(1)) : scores;
  if (groups > 1) choice = limit_groups(b, *this, choice);
  const Value ids = b.b.result(b.b(TopK{.k = k}, choice), 1);
  Value weights = b.b(TakeAlongAxis{}, scores, ids);
  if (scoring == Scoring::softmax_selected) weights = b.b(Softmax{}, weights);
  if (normalize) {
    const Value sum = b.b(Reduce{.keep_dims = true}, weights);
    weights = b.b(Div{}, weights, b.b(Clamp{.low = kLeastSum}, sum));
  }
  if (factor != 1.0f) weights = b.b(Scale{.factor = factor}, weights);
  b.ret({ids, weights});
}

std::vector<Sample> MoeRoute::samples() {
  struct Form {
    std::string_view name;
    MoeRoute op;
  };
  const Form forms[] = {
      {"switch", {.k = 1}},
      {"qwen", {.k = 8, .normalize = true}},
      {"mixtral", {.k = 2, .scoring = Scoring::softmax_selected}},
      {"scaled", {.k = 3, .factor = 0.5f}},
      {"all", {.k = 16, .scoring = Scoring::softmax_selected, .factor = -2.0f}},
      {"deepseek_v2", {.k = 3, .factor = 16.0f, .groups = 4, .group_limit = 2, .group_top = 1}},
      {"deepseek_v3",
       {.k = 4, .scoring = Scoring::sigmoid, .normalize = true, .bias = true, .factor = 2.5f,
        .groups = 4, .group_limit = 2}},
      {"bias", {.k = 5, .bias = true, .groups = 2, .group_top = 3}},
      {"bias_selected", {.k = 2, .scoring = Scoring::softmax_selected, .bias = true}},
  };
  std::vector<Sample> list;
  for (const Form& form : forms) {
    const std::int64_t rows = samples::deal(samples::kRows, list.size());
    std::vector<SampleOperand> in = {samples::normal({rows, 16})};
    if (form.op.bias) in.push_back(samples::normal({16}, DType::f32, 0.3f));
    list.push_back(make_sample(std::string(form.name), form.op, std::move(in), 16));
  }
  // Equal logits: the experts of the lowest numbers.
  list.push_back(make_sample("ties", MoeRoute{.k = 3, .normalize = true},
                             {samples::normal({2, 16}, DType::f32, 0.0f)}, 16));
  list.push_back(make_sample("far_apart", MoeRoute{.k = 4, .normalize = true},
                             {samples::normal({3, 16}, DType::f32, 60.0f)}, 16));
  return list;
}

}  // namespace rlx
