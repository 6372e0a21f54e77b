#include "ops/control.h"

#include <cstring>

#include "ir/control_args.h"
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/source.h"
#include "ops/checks.h"

namespace rlx {
namespace {

// Two shapes are one type; sizes that are open become checks.
void same_type(InferContext& c, const Shape& expected, const Shape& found, const std::string& what) {
  if (expected.rank() != found.rank() || expected.dtype != found.dtype || expected.kind != found.kind ||
      expected.layout != found.layout)
    c.fail("{}: expected {}, found {}", what, expected.text(), found.text());
  for (int axis = 0; axis < expected.rank(); ++axis)
    checks::same(c, expected.dim(axis), found.dim(axis), [&] {
      return fmt::format("{}: expected {}, found {}", what, expected.text(), found.text());
    });
}

void is_condition(InferContext& c, const Shape& s, const std::string& what) {
  const bool one = s.rank() == 0 || (s.rank() == 1 && s.dim(0) == Dim(1));
  if (s.dtype != DType::boolean || s.is_state() || !one)
    c.fail("{}: expected boolean[] or boolean[1], found {}", what, s.text());
}

// A sub-graph of the op whose inputs take these shapes; what is open in it is open here.
const Graph& signature(InferContext& c, GraphRef ref, std::string_view what, std::span<const Shape> inputs) {
  const Graph& sub = c.subgraph(ref, what);
  std::size_t next = 0;
  for (const Node& n : sub.nodes()) {
    if (!n.is<Input>()) continue;
    if (next < inputs.size())
      same_type(c, n.results[0], inputs[next], fmt::format("input \"{}\" of the sub-graph \"{}\"", n.name, what));
    ++next;
  }
  if (next != inputs.size())
    c.fail("the sub-graph \"{}\" has {} inputs: expected {}", what, next, inputs.size());
  for (const DimCheck& check : sub.checks()) c.equal(check.left, check.right, check.message);
  return sub;
}

const Shape& output_shape(const Graph& sub, std::size_t i) { return sub.shape(sub.outputs()[i].value); }

std::vector<Shape> operands(const InferContext& c, int begin) {
  std::vector<Shape> shapes;
  for (int i = begin; i < c.arity(); ++i) shapes.push_back(c.in(i));
  return shapes;
}

void output_count(InferContext& c, const Graph& sub, std::string_view what, std::size_t expected) {
  if (sub.outputs().size() != expected)
    c.fail("the sub-graph \"{}\" has {} outputs: expected {}", what, sub.outputs().size(), expected);
}

bool is_true(const Tensor& condition) { return condition.as<std::uint8_t>()[0] != 0; }

// Elements of the first axis cannot be taken or stacked where a vector's blocks reach over several.
bool has_blocks(const Shape& s) { return info(s.dtype).block_elements != 1; }

// Element i of the first axis, borrowed.
Tensor element(const Tensor& t, std::int64_t i) {
  const std::vector<std::int64_t> dims(t.dims().begin() + 1, t.dims().end());
  const auto bytes = static_cast<std::size_t>(t.byte_size() / t.dims()[0]);
  return Tensor::borrow(dims, t.dtype(), {t.data() + static_cast<std::size_t>(i) * bytes, bytes});
}

}  // namespace

void If::infer(InferContext& c) const {
  is_condition(c, c.in(0), "condition");
  const std::vector<Shape> inputs = operands(c, 1);
  const Graph &yes = signature(c, then_graph, "then", inputs), &no = signature(c, else_graph, "else", inputs);
  if (yes.outputs().empty()) c.fail("the sub-graph \"then\" has no output");
  output_count(c, no, "else", yes.outputs().size());
  for (std::size_t i = 0; i < yes.outputs().size(); ++i) {
    same_type(c, output_shape(yes, i), output_shape(no, i),
              fmt::format("output \"{}\" of the sub-graph \"else\"", no.outputs()[i].name));
    c.out(output_shape(yes, i));
  }
}

std::vector<Tensor> If::control(const ControlArgs& a) const {
  return a.run(is_true(a.inputs[0]) ? then_graph : else_graph, {a.inputs.begin() + 1, a.inputs.end()});
}

void While::infer(InferContext& c) const {
  if (limit < 1) c.fail("limit: expected at least 1, found {}", limit);
  const std::vector<Shape> values = operands(c, 0);
  if (values.empty()) c.fail("expected at least 1 operand, found 0");
  const Graph& test = signature(c, condition, "condition", values);
  output_count(c, test, "condition", 1);
  is_condition(c, output_shape(test, 0), "output of the sub-graph \"condition\"");
  const Graph& step = signature(c, body, "body", values);
  output_count(c, step, "body", values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    same_type(c, values[i], output_shape(step, i),
              fmt::format("output \"{}\" of the sub-graph \"body\"", step.outputs()[i].name));
    c.out(values[i]);
  }
}

std::vector<Tensor> While::control(const ControlArgs& a) const {
  std::vector<Tensor> values(a.inputs.begin(), a.inputs.end());
  for (std::int64_t i = 0; is_true(a.run(condition, values)[0]); ++i) {
    if (i == limit) fail(ErrorCode::limit, "while: the condition still holds after {} runs of the body", limit);
    values = a.run(body, std::move(values));
  }
  return values;
}

void Scan::infer(InferContext& c) const {
  if (carried < 0 || scanned < 0 || carried > c.arity() - scanned)
    c.fail("{} carried and {} scanned operands: expected at most {}, none negative", carried, scanned, c.arity());
  if (length.constant().value_or(0) < 0) c.fail("length: expected at least 0, found {}", length.text());
  std::vector<Shape> inputs = operands(c, 0);
  for (int i = carried; i < carried + scanned; ++i) {
    Shape& s = inputs[static_cast<std::size_t>(i)];
    const std::string what = fmt::format("scanned operand {}", i);
    if (s.rank() < 1 || s.is_state() || s.layout != Layout::plain || has_blocks(s))
      c.fail("{}: expected [length, ...] of a dtype without blocks, found {}", what, s.text());
    checks::same(c, s.dim(0), length, [&] {
      return fmt::format("{}: expected {} elements, found {}", what, length.text(), s.text());
    });
    s = Shape(s.dims().subspan(1), s.dtype);
  }
  const Graph& step = signature(c, body, "body", inputs);
  if (step.outputs().size() < static_cast<std::size_t>(carried))
    c.fail("the sub-graph \"body\" has {} outputs: expected {} carried ones", step.outputs().size(), carried);
  if (step.outputs().empty()) c.fail("the sub-graph \"body\" has no output");
  for (std::size_t i = 0; i < step.outputs().size(); ++i) {
    const Shape& s = output_shape(step, i);
    const std::string what = fmt::format("output \"{}\" of the sub-graph \"body\"", step.outputs()[i].name);
    if (i < static_cast<std::size_t>(carried)) {
      same_type(c, inputs[i], s, what);
      c.out(inputs[i]);
      continue;
    }
    if (s.rank() >= kMaxRank || s.layout != Layout::plain || has_blocks(s))
      c.fail("{}: expected a plain tensor of at most {} axes and a dtype without blocks, found {}", what, kMaxRank - 1,
             s.text());
    std::vector<Dim> dims(s.dims().begin(), s.dims().end());
    dims.insert(dims.begin(), length);
    c.out(Shape(dims, s.dtype));
  }
}

std::vector<Tensor> Scan::control(const ControlArgs& a) const {
  const std::int64_t n = length.evaluate({});
  const auto first_scanned = static_cast<std::size_t>(carried);
  const std::size_t first_fixed = first_scanned + static_cast<std::size_t>(scanned);
  std::vector<Tensor> values(a.inputs.begin(), a.inputs.begin() + carried), stacks;
  for (std::int64_t step = 0; step < n; ++step) {
    const std::int64_t t = reverse ? n - 1 - step : step;
    for (std::size_t i = first_scanned; i < first_fixed; ++i) values.push_back(element(a.inputs[i], t));
    values.insert(values.end(), a.inputs.begin() + static_cast<std::ptrdiff_t>(first_fixed), a.inputs.end());
    std::vector<Tensor> results = a.run(body, std::move(values));
    for (std::size_t i = first_scanned; i < results.size(); ++i) {
      const Tensor& part = results[i];
      if (step == 0) {
        std::vector<std::int64_t> dims = part.dims();
        dims.insert(dims.begin(), n);
        stacks.push_back(Tensor::zeros(std::move(dims), part.dtype()));
      }
      const auto bytes = static_cast<std::size_t>(part.byte_size());
      if (bytes > 0)
        std::memcpy(stacks[i - first_scanned].mutable_data() + static_cast<std::size_t>(t) * bytes, part.data(), bytes);
    }
    results.resize(first_scanned);
    values = std::move(results);
  }
  for (std::size_t i = first_scanned; n == 0 && i < a.results.size(); ++i) {
    std::vector<std::int64_t> dims;
    for (Dim d : a.results[i].dims()) dims.push_back(d.evaluate({}));
    stacks.push_back(Tensor::zeros(std::move(dims), a.results[i].dtype));
  }
  values.insert(values.end(), stacks.begin(), stacks.end());
  return values;
}

}  // namespace rlx
