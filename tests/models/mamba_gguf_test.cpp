// Mamba checkpoints as GGUF files: the golden ones with their tensors renamed, as converters write
// them, give the logits of the hub's layout.
#include <gtest/gtest.h>

#include <cmath>
#include <list>

#include "flow/weight_sources.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors.h"
#include "models/architecture.h"
#include "runtime/decoder.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

fs::path checkpoint(const std::string& name) { return fs::path(RLX_TEST_DIR) / "goldens/models" / name; }

std::vector<float> values_of(const WeightRef& w) {
  std::int64_t n = 1;
  for (const std::int64_t d : w.shape) n *= d;
  std::vector<float> values(static_cast<std::size_t>(n));
  decoder(w.dtype)(w.data.data(), values.data(), n);
  return values;
}

// Converters store decay rates in place of their logarithms, one-dimensional ones as columns, and
// convolutions without the dim of 1.
class Converter {
 public:
  Converter(const std::string& model, const Architecture& family)
      : family_(family),
        config_(load_model(checkpoint(model)).config),
        weights_(safetensors_weights(open_safetensors_folder(checkpoint(model)), model)),
        hub_(family.tensors, ConfigFormat::hub, "backbone."),
        gguf_(family.tensors, ConfigFormat::gguf, "") {}

  Decoder decoder(std::int64_t group_count = 1) {
    groups_ = group_count;
    put_metadata(group_count);
    for (const TensorName& t : family_.tensors)
      for (std::int64_t layer = 0; layer < (t.hub.find("{}") == std::string_view::npos ? 1 : config_.layers); ++layer)
        for (const std::string_view suffix : {".weight", ".bias", ""})
          put(hub_.name(t.role, layer) + std::string(suffix), gguf_.name(t.role, layer) + std::string(suffix));
    bytes_ = writer_.bytes();
    auto file = std::make_shared<const GgufFile>(GgufFile::from_bytes(bytes_, "mamba.gguf"));
    DecoderOptions o;
    o.threads = 1;
    o.context = 64;
    return Decoder(load_model(std::move(file), true), o);
  }

 private:
  void put_metadata(std::int64_t group_count) {
    const std::string arch(family_.name);
    writer_.put_string("general.architecture", arch);
    const auto put = [&](const char* key, std::int64_t v) { writer_.put_int(arch + key, GgufType::u32, v); };
    put(".block_count", config_.layers);
    put(".context_length", 1 << 20);
    put(".embedding_length", config_.hidden);
    put(".feed_forward_length", 0);
    put(".attention.head_count", 0);
    put(".vocab_size", config_.vocab);
    put(".ssm.conv_kernel", config_.ssm.taps);
    put(".ssm.inner_size", config_.ssm.inner);
    put(".ssm.state_size", config_.ssm.states);
    put(".ssm.time_step_rank", config_.ssm.heads > 0 ? config_.ssm.heads : config_.ssm.rank);
    if (config_.ssm.heads > 0) put(".ssm.group_count", group_count);
    writer_.put_float(arch + ".attention.layer_norm_rms_epsilon", GgufType::f32, config_.eps);
  }

  void put(const std::string& from, const std::string& to) {
    const WeightRef* w = weights_->find(from);
    if (w == nullptr) return;
    std::vector<std::int64_t> shape = w->shape;
    if (shape.size() == 3) shape.erase(shape.begin() + 1);
    if (config_.ssm.heads > 0 && from.ends_with("mixer.norm.weight")) shape = {groups_, shape[0] / groups_};
    const bool rates = from.ends_with("A_log");
    if (config_.ssm.heads > 0 && (rates || from.ends_with(".D"))) shape.push_back(1);
    if (!rates && w->shape.size() > 1) {
      writer_.add_tensor(to, w->dtype, shape, w->data);
      return;
    }
    kept_.push_back(values_of(*w));
    for (float& v : kept_.back())
      if (rates) v = -std::exp(v);
    writer_.add_tensor(to, DType::f32, shape, std::as_bytes(std::span(kept_.back())));
  }

  const Architecture& family_;
  DecoderConfig config_;
  std::int64_t groups_ = 1;
  std::shared_ptr<const WeightSource> weights_;
  TensorNames hub_, gguf_;
  GgufWriter writer_;
  std::list<std::vector<float>> kept_;
  std::vector<std::byte> bytes_;
};

std::vector<float> logits(Decoder d) {
  const std::vector<std::int32_t> tokens = {3, 14, 15, 92, 65, 35, 89, 79};
  const std::span<const float> all = d.step(tokens, Decoder::Want::all);
  return {all.begin(), all.end()};
}

Decoder hub_decoder(const std::string& model) {
  DecoderOptions o;
  o.threads = 1;
  o.context = 64;
  return Decoder(load_model(checkpoint(model)), o);
}

TEST(MambaGguf, GivesTheLogitsOfTheHubsLayout) {
  Converter converter("mamba", kMamba);
  EXPECT_EQ(logits(converter.decoder()), logits(hub_decoder("mamba")));
}

TEST(MambaGguf, TheNormOfMamba2HasTheFilesGroups) {
  Converter converter("mamba2", kMamba2);
  const std::vector<float> grouped = logits(converter.decoder(2)), whole = logits(hub_decoder("mamba2"));
  ASSERT_EQ(grouped.size(), whole.size());
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_TRUE(std::isfinite(grouped[i]));
    difference = std::max(difference, std::abs(double{grouped[i]} - double{whole[i]}));
    size = std::max(size, std::abs(double{whole[i]}));
  }
  // The two norms differ by how unequal the groups are: not much in a random checkpoint.
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, size);
}

}  // namespace
}  // namespace rlx
