// Ops of your own, outside the library: the same kind of thing as the built-in ones. One has a reference (a plain loop,
// which runs on every backend); one has a body of other ops, which fusions and kernels of the backend apply to.
#include <rlx/rlx.h>

#include <cmath>
#include <cstdio>

// y = a^x element by element: a reference, since no composition of built-in ops is as plain.
struct Exponential {
  float base = 2.0f;

  static constexpr std::string_view name = "my_exponential";
  static constexpr rlx::Trait traits = rlx::Trait::elementwise | rlx::Trait::row_wise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields() { return std::tuple{rlx::field("base", &Exponential::base)}; }
  bool operator==(const Exponential&) const = default;

  // Symbolic shapes in, symbolic shapes out; a fault is told at the line that builds the graph.
  void infer(rlx::InferContext& c) const {
    c.dtype(0, {rlx::DType::f32});
    if (!(base > 0)) c.fail("base: expected a number above 0, found {}", base);
    c.out(c.in(0));
  }
  // A worker does its part of the elements, which are independent: `thread` of `threads`.
  void reference(const rlx::KernelArgs& a) const {
    const rlx::TensorView &x = a.in[0], &y = a.out[0];
    std::int64_t n = 1;
    for (int axis = 0; axis < x.rank; ++axis) n *= x.dims[axis];
    for (std::int64_t i = n * a.thread / a.threads; i < n * (a.thread + 1) / a.threads; ++i)
      y.as<float>()[i] = static_cast<float>(std::pow(double{base}, double{x.as<float>()[i]}));
  }
};

// y = x w^T with the result scaled: a body. Passes see the ops in it, so the product runs in a native kernel.
struct ScaledLinear {
  float factor = 1.0f;

  static constexpr std::string_view name = "my_scaled_linear";
  static constexpr rlx::Trait traits = rlx::Trait::composite;
  static constexpr std::array<std::string_view, 2> operands = {"x", "w"};
  static constexpr auto fields() { return std::tuple{rlx::field("factor", &ScaledLinear::factor)}; }
  bool operator==(const ScaledLinear&) const = default;

  void infer(rlx::InferContext& c) const {
    c.rank(0, 2);
    c.rank(1, 2);
    c.equal(c.in(0).dim(1), c.in(1).dim(1), "columns of x and w");
    c.out(rlx::Shape({c.in(0).dim(0), c.in(1).dim(0)}, c.in(0).dtype));
  }
  void decompose(rlx::Body& body) const {
    const rlx::Value product = body.b(rlx::Linear{}, body.in(0), body.in(1));
    body.ret({body.b(rlx::Scale{.factor = factor}, product)});
  }
};

int main() {
  // Once, before the first use. From then on builder, parser, printer, verifier, interpreter and compiler know them.
  rlx::register_op<Exponential>();
  rlx::register_op<ScaledLinear>();

  rlx::Graph graph("custom");
  rlx::Builder b(graph);
  const rlx::Value x = b.input("x", rlx::Shape({rlx::sym::rows, 4}, rlx::DType::f32));
  const float identity[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  const rlx::Value w = b.constant(rlx::Tensor::from({4, 4}, std::span<const float>(identity)));
  graph.set_outputs({{"y", b(Exponential{.base = 3.0f}, b(ScaledLinear{.factor = 0.5f}, x, w))}});

  const std::string text = rlx::print(graph);
  const bool equal = rlx::print(rlx::parse_graph(text, "text")) == text;
  std::printf("%sread back: %s\n", text.c_str(), equal ? "equal" : "different");

  const float values[] = {2, 4, 6, 8};
  const auto compiled = rlx::Session(rlx::Device::cpu()).compile(graph, {}, {{rlx::sym::rows, 1}});
  std::printf("%s", compiled->compiled().dispatch.text().c_str());
  const auto out = compiled->run({{"x", rlx::Tensor::from({1, 4}, std::span<const float>(values))}});
  for (const float y : out[0].tensor.to_floats()) std::printf("%g ", static_cast<double>(y));
  std::printf("\n");
  return 0;
}
