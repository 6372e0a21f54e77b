#include "runtime/bench_model.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "formats/gguf_writer.h"
#include "runtime/random_encoder.h"
#include "runtime/random_weights.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

struct RandomShape {
  std::string_view name, architecture;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, inner, vocab;
  bool tied, qk_norm;
  double theta;
};
constexpr RandomShape kShapes[] = {
    {"llama-1b", "llama", 2048, 16, 32, 8, 64, 8192, 128256, true, false, 500000},
    {"llama-8b", "llama", 4096, 32, 32, 8, 128, 14336, 128256, false, false, 500000},
    {"qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, 151936, true, true, 1000000},
    {"smol", "llama", 576, 30, 9, 3, 64, 1536, 49152, true, false, 10000},
};

/// The file's bytes, and the file that reads them: the model keeps both alive.
struct OwnedFile {
  std::vector<std::byte> bytes;
  GgufFile file;
  OwnedFile(std::vector<std::byte> b, const std::string& name)
      : bytes(std::move(b)), file(GgufFile::from_bytes(bytes, name)) {}
};

class ModelWriter {
 public:
  ModelWriter(const RandomShape& shape, DType type, std::int64_t layers)
      : s_(shape), type_(type), layers_(layers) {}

  std::vector<std::byte> write() {
    metadata();
    matrix("token_embd.weight", s_.vocab, s_.hidden);
    if (!s_.tied) matrix("output.weight", s_.vocab, s_.hidden);
    norm("output_norm.weight", s_.hidden);
    for (std::int64_t i = 0; i < layers_; ++i) layer(fmt::format("blk.{}.", i));
    return writer_.bytes();
  }

 private:
  void metadata() {
    const std::string prefix = std::string(s_.architecture) + ".";
    const auto count = [&](std::string_view key, std::int64_t n) {
      writer_.put_int(prefix + std::string(key), GgufType::u32, n);
    };
    writer_.put_string("general.architecture", s_.architecture);
    writer_.put_string("general.name", fmt::format("random {} {}", s_.name, name(type_)));
    count("context_length", 32768);
    count("embedding_length", s_.hidden);
    count("block_count", layers_);
    count("feed_forward_length", s_.inner);
    count("attention.head_count", s_.heads);
    count("attention.head_count_kv", s_.kv_heads);
    count("attention.key_length", s_.head_dim);
    count("attention.value_length", s_.head_dim);
    count("rope.dimension_count", s_.head_dim);
    count("vocab_size", s_.vocab);
    writer_.put_float(prefix + "rope.freq_base", GgufType::f32, s_.theta);
    writer_.put_float(prefix + "attention.layer_norm_rms_epsilon", GgufType::f32, 1e-5);
  }

  void layer(const std::string& b) {
    norm(b + "attn_norm.weight", s_.hidden);
    norm(b + "ffn_norm.weight", s_.hidden);
    if (s_.qk_norm) {
      norm(b + "attn_q_norm.weight", s_.head_dim);
      norm(b + "attn_k_norm.weight", s_.head_dim);
    }
    matrix(b + "attn_q.weight", s_.heads * s_.head_dim, s_.hidden);
    matrix(b + "attn_k.weight", s_.kv_heads * s_.head_dim, s_.hidden);
    matrix(b + "attn_v.weight", s_.kv_heads * s_.head_dim, s_.hidden);
    matrix(b + "attn_output.weight", s_.hidden, s_.heads * s_.head_dim);
    matrix(b + "ffn_gate.weight", s_.inner, s_.hidden);
    matrix(b + "ffn_up.weight", s_.inner, s_.hidden);
    matrix(b + "ffn_down.weight", s_.hidden, s_.inner);
  }

  void norm(const std::string& tensor, std::int64_t n) {
    const std::vector<float> ones(static_cast<std::size_t>(n), 1.0f);
    const std::span<const std::byte> bytes = std::as_bytes(std::span<const float>(ones));
    add(tensor, DType::f32, {n}, {bytes.begin(), bytes.end()});
  }

  void matrix(const std::string& tensor, std::int64_t rows, std::int64_t columns) {
    const DType type = random_type_for(type_, columns);
    add(tensor, type, {rows, columns}, random_matrix(type, rows, columns, random_));
  }

  void add(const std::string& tensor, DType type, std::vector<std::int64_t> shape,
           std::vector<std::byte> data) {
    kept_.push_back(std::move(data));
    writer_.add_tensor(tensor, type, shape, kept_.back());
  }

  const RandomShape& s_;
  DType type_;
  std::int64_t layers_;
  GgufWriter writer_;
  RandomWords random_;
  std::vector<std::vector<std::byte>> kept_;
};

// Twice: the tensors and the file made of them exist together.
void check_memory(const RandomShape& s, DType type, std::int64_t layers) {
  const double per_layer =
      static_cast<double>(s.hidden) *
      static_cast<double>(2 * (s.heads + s.kv_heads) * s.head_dim + 3 * s.inner);
  const double values = per_layer * static_cast<double>(layers) +
                        static_cast<double>(s.vocab * s.hidden * (s.tied ? 1 : 2));
  check_random_memory(s.name, type, 2 * values * info(type).block_bytes / info(type).block_elements);
}

LoadedModel random_decoder(const RandomShape& shape, DType type, std::int64_t layers) {
  const std::int64_t count = layers > 0 ? layers : shape.layers;
  check_memory(shape, type, count);
  const auto owned =
      std::make_shared<OwnedFile>(ModelWriter(shape, type, count).write(), fmt::format("random {}", shape.name));
  return load_model(std::shared_ptr<const GgufFile>(owned, &owned->file), true);
}

}  // namespace

std::vector<std::string_view> random_model_names() {
  std::vector<std::string_view> names;
  for (const RandomShape& s : kShapes) names.push_back(s.name);
  for (const std::string_view name : random_encoder_names()) names.push_back(name);
  return names;
}

LoadedModel random_model(std::string_view wanted, std::string_view type, std::int64_t layers) {
  for (const RandomShape& s : kShapes)
    if (s.name == wanted) return random_decoder(s, random_type(type.empty() ? "q8_0" : type), layers);
  if (const std::vector<std::string_view> names = random_encoder_names();
      std::find(names.begin(), names.end(), wanted) != names.end())
    return random_encoder(wanted, random_type(type.empty() ? "f32" : type), layers);
  fail(ErrorCode::usage, "--random: expected {}, found \"{}\"", fmt::join(random_model_names(), ", "), wanted);
}

}  // namespace rlx
