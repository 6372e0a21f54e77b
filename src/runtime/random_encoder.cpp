#include "runtime/random_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "flow/weight_sources.h"
#include "models/architecture.h"
#include "runtime/random_weights.h"

namespace rlx {
namespace {

using Dims = std::vector<std::int64_t>;

/// Tensors are listed first and made together, so that memory is asked for once.
class TensorList {
 public:
  void matrix(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", Kind::matrix, {out, in});
    add(name + ".bias", Kind::zeros, {out});
  }
  void table(const std::string& name, const Dims& dims) { add(name, Kind::plain, dims); }
  void quantised_table(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name, Kind::matrix, {out, in});
  }
  void zeros(const std::string& name, std::int64_t n) { add(name, Kind::zeros, {n}); }
  void norm(const std::string& name, std::int64_t n) {
    add(name + ".weight", Kind::ones, {n});
    add(name + ".bias", Kind::zeros, {n});
  }
  void batch_norm(const std::string& name, std::int64_t n) {
    norm(name, n);
    add(name + ".running_mean", Kind::zeros, {n});
    add(name + ".running_var", Kind::ones, {n});
  }

  std::shared_ptr<const WeightSource> make(std::string_view model, DType type) const {
    /// The bytes of the tensors, which go with their list.
    struct Owned : WeightMap {
      using WeightMap::WeightMap;
      std::vector<std::vector<std::byte>> bytes;
    };
    double total = 0;
    for (const Entry& e : entries_) total += bytes_of(e, type);
    check_random_memory(model, type, total);
    const auto map = std::make_shared<Owned>(fmt::format("random {}", model));
    RandomWords random;
    for (const Entry& e : entries_) {
      if (e.kind == Kind::ones || e.kind == Kind::zeros) {
        const auto n = static_cast<std::size_t>(e.dims[0]);
        map->add(e.name, e.dims, std::vector<float>(n, e.kind == Kind::ones ? 1.0f : 0.0f));
        continue;
      }
      const DType stored = type_of(e, type);
      map->bytes.push_back(random_matrix(stored, rows_of(e), e.dims.back(), random));
      map->add(WeightRef{e.name, stored, e.dims, map->bytes.back(), nullptr});
    }
    return map;
  }

 private:
  enum class Kind : std::uint8_t { matrix, plain, ones, zeros };
  struct Entry {
    std::string name;
    Kind kind;
    Dims dims;
  };

  void add(std::string name, Kind kind, Dims dims) { entries_.push_back({std::move(name), kind, std::move(dims)}); }
  static std::int64_t rows_of(const Entry& e) {
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < e.dims.size(); ++i) rows *= e.dims[i];
    return rows;
  }
  static DType type_of(const Entry& e, DType type) {
    if (e.kind == Kind::matrix) return random_type_for(type, e.dims.back());
    return e.kind == Kind::plain && !is_quantized(type) ? type : e.kind == Kind::plain ? DType::f16 : DType::f32;
  }
  static double bytes_of(const Entry& e, DType type) {
    return static_cast<double>(rows_of(e)) * static_cast<double>(row_bytes(type_of(e, type), e.dims.back()));
  }

  std::vector<Entry> entries_;
};

struct BaseSizes {  // of BERT-base and ViT-base
  std::int64_t hidden = 768, inner = 3072, layers = 12, heads = 12;
};

/// The matrices of a layer, which BERT and ViT call alike but for the place of query, key and value.
void layer_matrices(TensorList& t, const std::string& layer, const std::string& attention, const BaseSizes& s) {
  for (const char* part : {"query", "key", "value"}) t.matrix(layer + attention + part, s.hidden, s.hidden);
  t.matrix(layer + "attention.output.dense", s.hidden, s.hidden);
  t.matrix(layer + "intermediate.dense", s.inner, s.hidden);
  t.matrix(layer + "output.dense", s.hidden, s.inner);
}

std::string bert_base(std::int64_t layers, TensorList& t) {
  const BaseSizes s;
  t.quantised_table("embeddings.word_embeddings.weight", 30522, s.hidden);
  t.table("embeddings.position_embeddings.weight", {512, s.hidden});
  t.table("embeddings.token_type_embeddings.weight", {2, s.hidden});
  t.norm("embeddings.LayerNorm", s.hidden);
  const std::int64_t count = layers > 0 ? layers : s.layers;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string b = fmt::format("encoder.layer.{}.", i);
    layer_matrices(t, b, "attention.self.", s);
    t.norm(b + "attention.output.LayerNorm", s.hidden);
    t.norm(b + "output.LayerNorm", s.hidden);
  }
  t.matrix("pooler.dense", s.hidden, s.hidden);
  return fmt::format(
      R"({{"model_type": "bert", "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
           "intermediate_size": {}, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
           "hidden_act": "gelu", "layer_norm_eps": 1e-12}})",
      s.hidden, count, s.heads, s.inner);
}

std::string vit_base(std::int64_t layers, TensorList& t) {
  const BaseSizes s;
  t.table("embeddings.cls_token", {1, 1, s.hidden});
  t.table("embeddings.position_embeddings", {1, 197, s.hidden});
  t.table("embeddings.patch_embeddings.projection.weight", {s.hidden, 3, 16, 16});
  t.zeros("embeddings.patch_embeddings.projection.bias", s.hidden);
  const std::int64_t count = layers > 0 ? layers : s.layers;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string b = fmt::format("encoder.layer.{}.", i);
    t.norm(b + "layernorm_before", s.hidden);
    layer_matrices(t, b, "attention.attention.", s);
    t.norm(b + "layernorm_after", s.hidden);
  }
  t.norm("layernorm", s.hidden);
  t.matrix("pooler.dense", s.hidden, s.hidden);
  return fmt::format(
      R"({{"model_type": "vit", "hidden_size": {}, "num_hidden_layers": {}, "num_attention_heads": {},
           "intermediate_size": {}, "image_size": 224, "patch_size": 16, "num_channels": 3, "hidden_act": "gelu",
           "layer_norm_eps": 1e-12, "qkv_bias": true}})",
      s.hidden, count, s.heads, s.inner);
}

void add_convolution(TensorList& t, const std::string& name, const Dims& kernel) {
  t.table(name + ".convolution.weight", kernel);
  t.batch_norm(name + ".normalization", kernel[0]);
}

std::string resnet_50(std::int64_t layers, TensorList& t) {
  if (layers > 0) fail(ErrorCode::usage, "--layers is for models of one stack of layers; resnet-50 has four stages");
  constexpr std::int64_t kWidths[] = {256, 512, 1024, 2048}, kDepths[] = {3, 4, 6, 3};
  add_convolution(t, "embedder.embedder", {64, 3, 7, 7});
  std::int64_t in = 64;
  for (std::size_t stage = 0; stage < 4; ++stage)
    for (std::int64_t i = 0; i < kDepths[stage]; ++i) {
      const std::string b = fmt::format("encoder.stages.{}.layers.{}.", stage, i);
      const std::int64_t out = kWidths[stage], inner = out / 4;
      if (in != out) add_convolution(t, b + "shortcut", {out, in, 1, 1});
      add_convolution(t, b + "layer.0", {inner, in, 1, 1});
      add_convolution(t, b + "layer.1", {inner, inner, 3, 3});
      add_convolution(t, b + "layer.2", {out, inner, 1, 1});
      in = out;
    }
  return R"({"model_type": "resnet", "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048],
             "depths": [3, 4, 6, 3], "layer_type": "bottleneck", "hidden_act": "relu"})";
}

struct RandomEncoder {
  std::string_view name;
  std::string (*list)(std::int64_t layers, TensorList& tensors);  ///< gives config.json
};
constexpr RandomEncoder kRandomEncoders[] = {
    {"bert-base", bert_base}, {"vit-base", vit_base}, {"resnet-50", resnet_50}};

}  // namespace

std::vector<std::string_view> random_encoder_names() {
  std::vector<std::string_view> names;
  for (const RandomEncoder& e : kRandomEncoders) names.push_back(e.name);
  return names;
}

LoadedModel random_encoder(std::string_view name, DType type, std::int64_t layers) {
  const auto* encoder = std::find_if(std::begin(kRandomEncoders), std::end(kRandomEncoders),
                                     [&](const RandomEncoder& e) { return e.name == name; });
  RLX_CHECK(encoder != std::end(kRandomEncoders), "a name of random_encoder_names");
  TensorList tensors;
  const HubConfig config = HubConfig::from_text(encoder->list(layers, tensors), fmt::format("random {}", name));
  const Architecture& family = architecture_of_hub(config);
  LoadedModel loaded;
  loaded.path = config.file();
  family.load({family, &config, nullptr, tensors.make(name, type), 0, DecodeForm::state}, loaded);
  loaded.model.info.name = config.file();
  return loaded;
}

}  // namespace rlx
