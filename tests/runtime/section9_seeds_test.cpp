// The seeds of the fuzz target `artefact` are files as this build writes them: seeds that are no longer read would
// leave the target at the first bytes of a file. Run with RLX_WRITE_SEEDS=1 RLX_ISA=baseline to write them anew.
#include <cstdlib>
#include <fstream>

#include "base/byte_stream.h"
#include "base/file.h"
#include "compiler/pipeline.h"
#include "device/program_io.h"
#include "ops/elementwise.h"
#include "ops/matmul.h"
#include "ops/norm.h"
#include "runtime/aot_support.h"
#include "runtime/backends.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

const Shape kSeedRows({sym::rows, 32}, DType::f32);

Graph linear_seed() {
  Graph g("linear");
  Builder b(g);
  g.set_outputs({{"y", b(Linear{}, b.input("x", kSeedRows), b.param("w", Shape({16, 32}, DType::q8_0)))}});
  return g;
}

Graph norm_seed() {
  Graph g("norm");
  Builder b(g);
  const Value x = b.input("x", kSeedRows), h = b(RmsNorm{}, x, b.param("w", Shape({32}, DType::f32)));
  const std::vector<float> half = {0.5f};
  g.set_outputs({{"y", b(Mul{}, h, b.constant(Tensor::from({1}, half)))}, {"h", h}});
  return g;
}

Graph in_place_seed() {
  Graph g("in_place");
  Builder b(g);
  const Value x = b.input("x", kSeedRows), w = b.param("w", Shape({32, 32}, DType::f32));
  const Value y = b(Linear{.residual = true}, x, w, b(Softcap{}, b(Scale{.factor = 2.0f}, x)));
  g.set_outputs({{"y", b(Activation{.act = Act::silu}, y)}});
  return g;
}

Graph llama_seed() {
  ToyShape shape;
  shape.layers = 1;
  return ToyModel(DType::q8_0, shape).load().model.graph;
}

// The first byte of a seed chooses what the target reads the rest as.
std::string seed(const Graph& graph, const Backend& backend, bool is_cpu) {
  CompileOptions options;
  options.alignment = 128;
  options.budget = 1 << 24;
  const CompileResult r = compile(graph, options, backend)
                              .specialize({{sym::rows, 3}, {sym::out_rows, 2}, {sym::batch, 1}}, {2, 128});
  ByteWriter out;
  write_program(out, *r.lir.program);
  write_plan(out, *r.lir.plan);
  return (is_cpu ? '\3' : '\2') + std::string(out.bytes());
}

TEST(section9_Seeds, AreWhatThisBuildWrites) {
  const bool write = std::getenv("RLX_WRITE_SEEDS") != nullptr;
  const aot_fs::path folder = aot_fs::path(RLX_TEST_DIR) / "fuzz/corpus/artefact";
  for (const Device& device : {Device::reference(), Device::cpu()})
    for (const Graph& graph : {linear_seed(), norm_seed(), in_place_seed(), llama_seed()}) {
      const Backend& backend = find_backend(device);
      const bool is_cpu = device == Device::cpu();
      const aot_fs::path file = folder / (std::string(is_cpu ? "cpu-" : "reference-") + graph.name);
      const std::string now = seed(graph, backend, is_cpu);
      if (write) std::ofstream(file, std::ios::binary) << now;
      const std::string kept = read_file(file), path = file.string();
      // Programs for the CPU name the kernels of the machine that wrote them.
      if (!is_cpu) {
        EXPECT_EQ(kept, now) << path;
      }
      ByteCursor in(std::string_view(kept).substr(1), path);
      const Program program = read_program(in, backend);
      EXPECT_FALSE(read_plan(in, program).offsets.empty()) << path;
    }
}

}  // namespace
}  // namespace rlx
