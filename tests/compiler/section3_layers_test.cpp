// Reports name a layer's body once, with the layers that have it.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "compiler/layer_bodies.h"
#include "compiler/pipeline.h"
#include "ops/elementwise.h"
#include "ops/norm.h"

namespace rlx {
namespace {

// Four layers; the third has one op more.
Graph layered() {
  Graph g("layered");
  Builder b(g);
  Value x = b.input("x", Shape({sym::rows, 32}, DType::f32));
  const Value w = b.param("w", Shape({32}, DType::f32));
  for (int i = 0; i < 4; ++i) {
    b.set_origin("layers." + std::to_string(i) + ".norm");
    x = b(RmsNorm{}, x, w);
    if (i != 2) continue;
    b.set_origin("layers.2.extra.scale");
    x = b(Scale{.factor = 2}, x);
  }
  b.set_origin("head.norm");
  g.set_outputs({{"y", b(RmsNorm{.eps = 1e-3f}, x, w)}});
  return g;
}

TEST(section3_Layers, EqualBodiesAreNamedOnce) {
  // A region would take all the layers in.
  CompileOptions options;
  options.disabled_passes = {"form_regions"};
  const CompileResult r = compile(layered(), options, cpu::backend());
  const std::vector<LayerBody> bodies = layer_bodies(r.dispatch);
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0].layers, (std::vector<std::string>{"layers.0", "layers.1", "layers.3"}));
  EXPECT_EQ(bodies[0].calls.size(), 1u);
  EXPECT_EQ(bodies[1].layers, std::vector<std::string>{"layers.2"});
  ASSERT_EQ(bodies[1].calls.size(), 2u);
  EXPECT_EQ(bodies[1].calls[1].substr(0, 18), "extra.scale scale<");
  const std::string all = layers_text(bodies);
  const std::string first = "layers.0-1, layers.3 (3 alike, 1 calls)\n  norm rms_norm<rms_norm_f32";
  EXPECT_NE(all.find(first), std::string::npos) << all;
  EXPECT_NE(r.dispatch.text().find("layers.2 (1 alike, 2 calls)"), std::string::npos);
}

}  // namespace
}  // namespace rlx
