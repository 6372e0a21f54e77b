// Fusions that change no arithmetic change no bit: a program with the pass and without it give the same bytes, for one
// row and for many.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ir/parse.h"
#include "ir/source.h"
#include "runtime/compiled_graph.h"
#include "runtime/model_pipeline.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

std::vector<Tensor> run_with(const Graph& graph, const CompileOptions& options, std::int64_t rows) {
  const DimBinding bound = {{sym::rows, rows}};
  Session session(Device::cpu());
  const auto compiled = session.compile(graph, options, bound);
  std::vector<NamedTensor> inputs;
  const Graph sized = bind(graph, bound);
  for (const Node& n : sized.nodes()) {
    if (!n.is<Input>() && !n.is<Param>()) continue;
    std::vector<std::int64_t> dims;
    for (Dim d : n.results[0].dims()) dims.push_back(*d.constant());
    Tensor t = Tensor::zeros(dims, n.results[0].dtype);
    std::mt19937 random(static_cast<unsigned>(op_id(n.name)));
    std::normal_distribution<float> normal(0.0f, 0.3f);
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    for (float& v : values) v = normal(random);
    encoder(t.dtype())(values.data(), t.mutable_data(), t.elements());
    if (n.is<Param>())
      compiled->set_param(n.name, t);
    else
      inputs.push_back({n.name, std::move(t)});
  }
  std::vector<Tensor> out;
  for (const NamedTensor& t : compiled->run(inputs)) {
    Tensor copy = Tensor::zeros(t.tensor.dims(), t.tensor.dtype());
    std::memcpy(copy.mutable_data(), t.tensor.data(), static_cast<std::size_t>(t.tensor.byte_size()));
    out.push_back(std::move(copy));
  }
  return out;
}

void expect_same_bits(const std::string& body, const std::vector<std::string>& passes, Activations activations) {
  const Graph graph = parse_graph("graph \"g\" stage=mir\n" + body, "text");
  CompileOptions with;
  with.precision = {activations, DType::f32};
  CompileOptions without = with;
  without.disabled_passes = passes;
  for (const std::int64_t rows : {1, 3, 77}) {
    const auto a = run_with(graph, with, rows), b = run_with(graph, without, rows);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(std::memcmp(a[i].data(), b[i].data(), static_cast<std::size_t>(a[i].byte_size())), 0)
          << "output " << i << " of " << rows << " rows, activations " << name(activations);
  }
}

// Q, K and V with their norm, a gate with its norm, a product with a residual.
TEST(section6_SameBits, ProductsWithTheirInputs) {
  const std::string layer = R"(
  %0 = input "x" : f32[rows, 128]
  %1 = param "n" : f32[128]
  %2 = param "q" : f32[128, 128]
  %3 = param "k" : f16[48, 128]
  %4 = param "v" : bf16[40, 128]
  %5 = param "bias" : f32[48]
  %6 = param "gate" : f32[96, 128]
  %7 = param "up" : f32[96, 128]
  %8 = param "down" : f16[128, 96]
  %9 = rms_norm(%0, %1) eps=0.001 : f32[rows, 128]
  %10 = linear(%9, %2) : f32[rows, 128]
  %11 = linear(%9, %3, %5) bias=true : f32[rows, 48]
  %12 = linear(%9, %4) : f32[rows, 40]
  %13 = add(%10, %0) : f32[rows, 128]
  %14 = rms_norm(%13, %1) weight_offset=1 : f32[rows, 128]
  %15 = gated_linear(%14, %6, %7) : f32[rows, 96]
  %16 = linear(%15, %8, %13) residual=true : f32[rows, 128]
return "y" %16, "k" %11, "v" %12
)";
  for (const Activations a : {Activations::f32, Activations::int8, Activations::bf16})
    expect_same_bits(layer, {"fuse_shared_input", "fuse_product_input", "form_regions"}, a);
}

// Regions of ops that have kernels of their own.
TEST(section6_SameBits, Regions) {
  expect_same_bits(R"(
  %0 = input "x" : f32[rows, 112]
  %1 = input "r" : f32[rows, 112]
  %2 = param "n" : f32[112]
  %3 = rms_norm(%0, %2) : f32[rows, 112]
  %4 = add(%3, %1) : f32[rows, 112]
  %5 = rms_norm(%4, %2) eps=0.1 weight_offset=1 : f32[rows, 112]
  %6 = activation(%5) act=silu : f32[rows, 112]
  %7 = mul(%6, %4) : f32[rows, 112]
  %8 = mul(%7, %2) : f32[rows, 112]
  %9 = add(%8, %0) : f32[rows, 112]
  %10 = softcap(%9) cap=2 : f32[rows, 112]
  %11 = cast(%10) to=bf16 : bf16[rows, 112]
return "y" %10, "h" %4, "b" %11
)",
                   {"form_regions"}, Activations::f32);
}

}  // namespace
}  // namespace rlx
