// ResNet against what its blocks give when every kernel is zero: batch norms alone, by their definition.
#include <gtest/gtest.h>

#include <cmath>

#include "error_text.h"
#include "flow/weight_sources.h"
#include "models/architecture.h"
#include "models/load.h"
#include "runtime/encoder.h"

namespace rlx::models_resnet_tests {
namespace {

/// Convolutions and their norms. With kernels of zeros the one called `name` gives its shift everywhere.
struct ConvWeights {
  std::shared_ptr<WeightMap> map = std::make_shared<WeightMap>("convolutions");

  float step = 0;  ///< else kernels of sin(step * i) / 16

  void conv(const std::string& name, std::vector<std::int64_t> kernel, float gain, float shift, float mean,
            float variance) const {
    std::int64_t n = 1;
    for (const std::int64_t d : kernel) n *= d;
    std::vector<float> weight(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < weight.size(); ++i) weight[i] = std::sin(step * static_cast<float>(i)) / 16;
    const std::int64_t out = kernel[0];
    const auto filled = [](std::int64_t count, float v) {
      return std::vector<float>(static_cast<std::size_t>(count), v);
    };
    map->add(name + ".convolution.weight", kernel, std::move(weight));
    map->add(name + ".normalization.weight", {out}, filled(out, gain));
    map->add(name + ".normalization.bias", {out}, filled(out, shift));
    map->add(name + ".normalization.running_mean", {out}, filled(out, mean));
    map->add(name + ".normalization.running_var", {out}, filled(out, variance));
  }
};

LoadedModel build(const std::string& config, const std::shared_ptr<WeightMap>& weights) {
  const HubConfig hub = HubConfig::from_text(config, "config.json");
  LoadedModel loaded;
  kResnet.load({kResnet, &hub, nullptr, weights, 0, DecodeForm::state}, loaded);
  return loaded;
}

double normed(double gain, double shift, double mean, double variance) {
  return shift - mean * gain / std::sqrt(variance + 1e-5);
}

TEST(Resnet, BasicBlocksAddTheirShortcut) {
  const ConvWeights w;
  w.conv("resnet.embedder.embedder", {4, 3, 7, 7}, 2, 5, 1, 4);
  w.conv("resnet.encoder.stages.0.layers.0.layer.0", {4, 4, 3, 3}, 1, 9, 0, 1);
  w.conv("resnet.encoder.stages.0.layers.0.layer.1", {4, 4, 3, 3}, 3, 1, 2, 9);
  w.conv("resnet.encoder.stages.1.layers.0.layer.0", {6, 4, 3, 3}, 1, 9, 0, 1);
  w.conv("resnet.encoder.stages.1.layers.0.layer.1", {6, 6, 3, 3}, 1, -7, 0, 1);
  w.conv("resnet.encoder.stages.1.layers.0.shortcut", {6, 4, 1, 1}, 0.5f, 8, 4, 16);
  w.conv("resnet.encoder.stages.1.layers.1.layer.0", {6, 6, 3, 3}, 1, 9, 0, 1);
  w.conv("resnet.encoder.stages.1.layers.1.layer.1", {6, 6, 3, 3}, 1, 0.25f, 0, 1);
  EncoderOptions options;
  options.threads = 1;
  options.compile.precision.activations = Activations::f32;
  LoadedModel loaded = build(R"({"model_type": "resnet", "embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 2],
                                 "layer_type": "basic"})", w.map);
  EXPECT_TRUE(loaded.model.unused.empty());
  EncoderModel model(std::move(loaded), options);
  EXPECT_EQ(model.info().layers, 3);
  const HiddenRows rows = model.run_images(Tensor::zeros({1, 3, 40, 24}));
  EXPECT_EQ(rows.rows.dims(), (std::vector<std::int64_t>{5 * 3, 6}));
  const double expected = normed(0.5, 8, 4, 16) - 7 + 0.25;  // stage 1: relu(shortcut + second), then + second again
  for (const float v : rows.rows.as<float>()) EXPECT_NEAR(v, expected, 1e-5);
  for (const float v : rows.pooled->as<float>()) EXPECT_NEAR(v, expected, 1e-5);
}

// 32 channels are enough for the convolutions of 3 x 3 to be Winograd's, but for the one with steps of 2.
TEST(Resnet, WinogradGivesWhatThePlainConvolutionsOfItsCommonFormGive) {
  const auto rows_of = [](const char* device, DispatchPolicy policy) {
    ConvWeights w;
    w.step = 0.37f;
    w.conv("embedder.embedder", {32, 3, 7, 7}, 2, 0.1f, 0, 1);
    for (const char* stage : {"0", "1"})
      for (const char* layer : {"0", "1"})
        w.conv(std::string("encoder.stages.") + stage + ".layers.0.layer." + layer, {32, 32, 3, 3}, 1, 0.2f, 0.1f, 2);
    w.conv("encoder.stages.1.layers.0.shortcut", {32, 32, 1, 1}, 1, 0, 0, 1);
    EncoderOptions options;
    options.threads = 2;
    options.device = Device::parse(device);
    options.compile.dispatch.policy = policy;
    EncoderModel model(build(R"({"embedding_size": 32, "hidden_sizes": [32, 32], "depths": [1, 1],
                                 "layer_type": "basic"})", w.map), options);
    Tensor pixels = Tensor::zeros({2, 3, 36, 52});
    for (std::size_t i = 0; float& v : pixels.mutable_as<float>()) v = std::sin(0.11f * static_cast<float>(i++));
    return model.run_images(pixels).rows.to_floats();
  };
  const std::vector<float> native = rows_of("cpu", DispatchPolicy::force_native),
                           common = rows_of("cpu", DispatchPolicy::force_common),
                           reference = rows_of("reference", DispatchPolicy::prefer_native);
  ASSERT_EQ(native.size(), reference.size());
  float largest = 0;
  for (const float v : reference) largest = std::max(largest, std::abs(v));
  EXPECT_GT(largest, 0.1f);
  for (std::size_t i = 0; i < native.size(); ++i) {
    EXPECT_NEAR(native[i], reference[i], 1e-5f * largest) << i;
    EXPECT_NEAR(common[i], reference[i], 1e-5f * largest) << i;
  }
}

TEST(Resnet, WrongConfigsAreNamed) {
  const ConvWeights w;
  w.conv("embedder.embedder", {4, 3, 7, 7}, 1, 0, 0, 1);
  const auto refusal = [&](const std::string& fields, ErrorCode code = ErrorCode::format) {
    return test::error_text(code, [&] { build("{\"embedding_size\": 4, " + fields + "}", w.map); });
  };
  EXPECT_EQ(refusal(R"("hidden_sizes": [4], "depths": [1, 1])"),
            "config.json: depths: expected a number for each of 1 stages, found 2");
  EXPECT_EQ(refusal(R"("hidden_sizes": [6], "depths": [1])"),
            "config.json: hidden_sizes: expected multiples of 4, found 6");
  EXPECT_NE(refusal(R"("depths": [1])").find("hidden_sizes: expected a number for each stage, found none"),
            std::string::npos);
  EXPECT_NE(refusal(R"("hidden_sizes": [4], "depths": [1000000])").find("depths: expected 1 to 5, found 1000000"),
            std::string::npos);
  EXPECT_NE(refusal(R"("hidden_sizes": [4, 4], "depths": [3, 3])").find("depths: expected at most 5 blocks, found 6"),
            std::string::npos);
  EXPECT_NE(refusal(R"("hidden_sizes": [4], "depths": [1], "layer_type": "wide")", ErrorCode::unsupported)
                .find("layer_type: expected \"bottleneck\" or \"basic\", found \"wide\""),
            std::string::npos);
  const std::string missing = refusal(R"("hidden_sizes": [4], "depths": [1])", ErrorCode::shape);
  EXPECT_NE(missing.find("encoder.stages.0.layers.0.layer.0.convolution.weight"), std::string::npos) << missing;
}

}  // namespace
}  // namespace rlx::models_resnet_tests
