// Builds a symbolic graph in C++, prints it before and after the compiler's passes, and places it
// for two sizes: no weight is needed for any of this.
#include <rlx/rlx.h>

#include <cstdio>

#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"

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
  return 0;
}
