// A pass of one's own: two scales in a row become one. It runs behind a built-in pass, under the same wrapper: named,
// timed, verified, printed by RLX_PRINT=after-each.
#include <rlx/rlx.h>

#include <cstdio>

namespace {

// A rule sees each node with its new operands, and answers with what stands for its results, or nothing.
bool merge_scales(rlx::Graph& graph, const rlx::PassContext& context) {
  rlx::Rewriter rewriter(graph);
  return rewriter.run([&](const rlx::Rewriter::Site& site) -> rlx::Rewriter::Answer {
    const auto outer = site.node.as<rlx::Scale>();
    if (!outer) return {};
    const rlx::Node& before = rewriter.producer(site.node, 0);
    const auto inner = before.as<rlx::Scale>();
    if (!inner) return {};
    // A value that others read, or that is an output, must stay as it is.
    if (!rewriter.single_use(site.node.inputs[0])) return {};
    if (context.fusion != nullptr) context.fusion->fused.push_back({"merge_scales", "scale", site.node.origin});
    return {site.b(rlx::Scale{.factor = outer->factor * inner->factor}, rewriter.now(before.inputs[0]))};
  });
}

}  // namespace

int main() {
  rlx::HirModule hir("scaled");
  const rlx::Value x = hir.input("x", rlx::Shape({rlx::Dim(rlx::sym::rows), 4}, rlx::DType::f32));
  hir.set_outputs({hir(rlx::Scale{.factor = 3.0f}, hir(rlx::Scale{.factor = 2.0f}, x))});

  rlx::CompileOptions options;
  options.custom_passes.push_back({"merge_scales", merge_scales, "cse"});
  rlx::Session session(rlx::Device::cpu());
  const auto graph = session.compile(hir, options, {{rlx::sym::rows, 2}});
  std::printf("%s", rlx::print(*graph->compiled().mir).c_str());
  std::printf("%s", graph->compiled().fusion.text().c_str());

  rlx::Tensor ones = rlx::Tensor::zeros({2, 4});
  for (float& v : ones.mutable_as<float>()) v = 1.0f;
  const auto out = graph->run({{"x", ones}});
  std::printf("1 * 2 * 3 = %g\n", static_cast<double>(out[0].tensor.as<float>()[0]));
  return 0;
}
