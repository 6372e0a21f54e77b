// Builds a symbolic graph in C++, prints it before and after the compiler's passes, places it for two
// sizes, and runs it.
#include <rlx/rlx.h>

#include <cstdio>

int main() {
  rlx::Graph graph("example");
  rlx::Builder b(graph);
  const rlx::Value x = b.input("x", rlx::Shape({rlx::sym::rows, 64}, rlx::DType::f32));
  const rlx::Value norm = b.param("norm", rlx::Shape({64}, rlx::DType::f32));
  const rlx::Value w = b.param("w", rlx::Shape({64, 64}, rlx::DType::q4_0));
  const rlx::Value y = b(rlx::Linear{}, b(rlx::RmsNorm{.eps = 1e-5f}, x, norm), w);
  graph.set_outputs({{"y", b(rlx::Add{}, x, y)}});
  std::printf("%s\n", rlx::print(graph).c_str());

  const rlx::CompileResult result = rlx::compile(graph, {}, rlx::find_backend(rlx::Device::cpu()));
  std::printf("%s\n%s\n", rlx::print(*result.mir).c_str(), result.dispatch.text().c_str());
  for (const std::int64_t rows : {1, 512}) {
    const rlx::Plan plan =
        rlx::specialize(*result.lir.program, {{rlx::sym::rows, rows}}, {.threads = 2});
    std::printf("rows=%lld: %lld bytes of buffers\n", static_cast<long long>(rows),
                static_cast<long long>(plan.arena_bytes));
  }

  // No weight was needed so far. A handle takes them in the form that the graph names: here blocks of
  // q4_0, all zeros, so that y = x.
  rlx::Session session(rlx::Device::cpu());
  const auto handle = session.compile(graph, {}, {{rlx::sym::rows, 512}});
  rlx::Tensor ones = rlx::Tensor::zeros({64});
  for (float& v : ones.mutable_as<float>()) v = 1.0f;
  handle->set_param("norm", ones);
  handle->set_param("w", rlx::Tensor::zeros({64, 64}, rlx::DType::q4_0));
  rlx::Tensor rows = rlx::Tensor::zeros({3, 64});
  for (float& v : rows.mutable_as<float>()) v = 0.25f;
  const auto out = handle->run({{"x", rows}});
  std::printf("y: %s, y[0] = %g\n", out[0].tensor.text().c_str(),
              static_cast<double>(out[0].tensor.as<float>()[0]));
  return 0;
}
