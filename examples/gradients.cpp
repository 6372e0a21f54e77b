// Gradients: a graph with a loss, the graph of its gradients, and a few steps of gradient descent. The gradient graph
// is an ordinary graph: it is compiled by the same passes and run by the same kernels.
#include <rlx/rlx.h>

#include <cstdio>

#include "ops/arithmetic.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/reduction.h"

int main() {
  // The least squares of y = x w^T: loss = mean((x w^T - y)^2).
  rlx::Graph graph("least_squares");
  rlx::Builder b(graph);
  const rlx::Value x = b.input("x", rlx::Shape({8, 3}, rlx::DType::f32));
  const rlx::Value y = b.input("y", rlx::Shape({8, 1}, rlx::DType::f32));
  const rlx::Value w = b.input("w", rlx::Shape({1, 3}, rlx::DType::f32));
  const rlx::Value error = b(rlx::Sub{}, b(rlx::Linear{}, x, w), y);
  const rlx::Reduce mean{.kind = rlx::Reduction::mean, .axis = 0};
  graph.set_outputs({{"loss", b(mean, b(rlx::Mul{}, error, error))}});

  // One more output: "grad.w", in the shape of w.
  const std::vector<std::string> outputs = {"loss"}, wrt = {"w"};
  const rlx::Graph with_gradient = rlx::grad(graph, outputs, wrt);
  std::printf("%s\n", rlx::print(with_gradient).c_str());

  rlx::Session session(rlx::Device::cpu());
  const auto compiled = session.compile(with_gradient);
  rlx::Tensor points = rlx::Tensor::zeros({8, 3}), values = rlx::Tensor::zeros({8, 1}),
              weights = rlx::Tensor::zeros({1, 3});
  const float truth[] = {2.0f, -1.0f, 0.5f};
  for (std::size_t i = 0; i < 24; ++i) {
    points.mutable_as<float>()[i] = static_cast<float>((i * i * i + 5 * i) % 17) / 8.0f - 1.0f;
    values.mutable_as<float>()[i / 3] += points.as<float>()[i] * truth[i % 3];
  }
  for (int step = 0; step < 200; ++step) {
    const auto out = compiled->run({{"x", points}, {"y", values}, {"w", weights}});
    if (step % 50 == 0) std::printf("step %d: loss %.5f\n", step, double{out[0].tensor.as<float>()[0]});
    for (std::size_t i = 0; i < 3; ++i) weights.mutable_as<float>()[i] -= 0.4f * out[1].tensor.as<float>()[i];
  }
  std::printf("w = %.3f %.3f %.3f\n", double{weights.as<float>()[0]}, double{weights.as<float>()[1]},
              double{weights.as<float>()[2]});
  return 0;
}
