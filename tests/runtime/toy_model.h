// A small random llama as a GGUF file in memory, with weights of any storage type.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "formats/gguf_writer.h"
#include "models/load.h"
#include "tensor/quant/codec.h"

namespace rlx {

struct ToyShape {
  std::int64_t vocab = 320, hidden = 256, inner = 512, layers = 3, heads = 4, kv_heads = 2,
               context = 512;
};

class ToyModel {
 public:
  explicit ToyModel(DType type, ToyShape shape = {}) : shape_(shape), random_(11) {
    GgufWriter w;
    w.put_string("general.architecture", "llama");
    number(w, "llama.block_count", shape.layers);
    number(w, "llama.context_length", shape.context);
    number(w, "llama.embedding_length", shape.hidden);
    number(w, "llama.feed_forward_length", shape.inner);
    number(w, "llama.attention.head_count", shape.heads);
    number(w, "llama.attention.head_count_kv", shape.kv_heads);
    number(w, "llama.vocab_size", shape.vocab);
    w.put_float("llama.attention.layer_norm_rms_epsilon", GgufType::f32, 1e-5);
    const std::int64_t kv = shape.hidden / shape.heads * shape.kv_heads;
    tensor(w, "token_embd.weight", type, {shape.vocab, shape.hidden});
    tensor(w, "output_norm.weight", DType::f32, {shape.hidden});
    for (std::int64_t i = 0; i < shape.layers; ++i) {
      const std::string p = "blk." + std::to_string(i) + ".";
      tensor(w, p + "attn_norm.weight", DType::f32, {shape.hidden});
      tensor(w, p + "ffn_norm.weight", DType::f32, {shape.hidden});
      tensor(w, p + "attn_q.weight", type, {shape.hidden, shape.hidden});
      tensor(w, p + "attn_k.weight", type, {kv, shape.hidden});
      tensor(w, p + "attn_v.weight", type, {kv, shape.hidden});
      tensor(w, p + "attn_output.weight", type, {shape.hidden, shape.hidden});
      tensor(w, p + "ffn_gate.weight", type, {shape.inner, shape.hidden});
      tensor(w, p + "ffn_up.weight", type, {shape.inner, shape.hidden});
      tensor(w, p + "ffn_down.weight", type, {shape.hidden, shape.inner});
    }
    bytes_ = w.bytes();
  }

  /// The model keeps the file's bytes alive.
  LoadedModel load() const {
    struct Held {
      std::vector<std::byte> bytes;
      GgufFile file;
      explicit Held(std::vector<std::byte> b)
          : bytes(std::move(b)), file(GgufFile::from_bytes(bytes, "toy.gguf")) {}
    };
    const auto held = std::make_shared<const Held>(bytes_);
    return load_model(std::shared_ptr<const GgufFile>(held, &held->file), true);
  }
  const ToyShape& shape() const { return shape_; }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  static void number(GgufWriter& w, std::string_view key, std::int64_t v) {
    w.put_int(key, GgufType::u32, v);
  }

  // Norm weights near 1, matrices scaled so that activations keep their size.
  void tensor(GgufWriter& w, const std::string& name, DType type, std::vector<std::int64_t> shape) {
    const std::int64_t k = shape.back(), rows = shape.size() > 1 ? shape[0] : 1;
    std::normal_distribution<float> normal(
        shape.size() > 1 ? 0.0f : 1.0f,
        shape.size() > 1 ? 1.0f / std::sqrt(static_cast<float>(k)) : 0.1f);
    data_.emplace_back(static_cast<std::size_t>(row_bytes(type, k) * rows));
    std::vector<float> row(static_cast<std::size_t>(k));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (float& v : row) v = normal(random_);
      encoder(type)(row.data(), data_.back().data() + r * row_bytes(type, k), k);
    }
    w.add_tensor(name, type, shape, data_.back());
  }

  ToyShape shape_;
  std::mt19937 random_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<std::byte> bytes_;
};

}  // namespace rlx
