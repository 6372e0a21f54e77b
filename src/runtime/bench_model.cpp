#include "runtime/bench_model.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "formats/gguf_writer.h"
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

// Where the f16 scales of a block stand, and values that keep the weights near 0.02.
struct Scale {
  DType type;
  std::size_t at;
  float value;
};
constexpr Scale kScales[] = {
    {DType::q4_0, 0, 4e-3f},     {DType::q4_1, 0, 4e-3f},  {DType::q4_1, 2, -3e-2f},
    {DType::q5_0, 0, 2e-3f},     {DType::q5_1, 0, 2e-3f},  {DType::q5_1, 2, -3e-2f},
    {DType::q8_0, 0, 2.5e-4f},   {DType::q2_K, 80, 2e-3f}, {DType::q2_K, 82, 3e-3f},
    {DType::q3_K, 108, 4e-4f},   {DType::q4_K, 0, 8e-5f},  {DType::q4_K, 2, 6e-4f},
    {DType::q5_K, 0, 4e-5f},     {DType::q5_K, 2, 6e-4f},  {DType::q6_K, 208, 1e-5f},
    {DType::iq4_nl, 0, 2.5e-4f},
};

// What files of a type use for rows that the type's blocks do not divide.
DType type_for(DType wanted, std::int64_t row) {
  if (row % info(wanted).block_elements == 0) return wanted;
  switch (wanted) {
    case DType::q2_K:
    case DType::q3_K:
      return DType::iq4_nl;
    case DType::q4_K:
      return DType::q5_0;
    case DType::q5_K:
      return DType::q5_1;
    case DType::q6_K:
      return DType::q8_0;
    default:
      fail(ErrorCode::unsupported, "--type {}: a row of {} values is no multiple of {}",
           name(wanted), row, info(wanted).block_elements);
  }
}

/// Random words, the same in every run (splitmix64, https://prng.di.unimi.it/splitmix64.c).
class Random {
 public:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0;
};

// Plain floats: random sign and mantissa, and an exponent that gives 0.008 to 0.03.
void fill_floats(std::span<std::byte> out, DType type, Random& random) {
  const std::size_t size = static_cast<std::size_t>(info(type).block_bytes);
  for (std::size_t at = 0; at + size <= out.size(); at += size) {
    const std::uint64_t r = random.next();
    const float value =
        (static_cast<float>(r >> 40) / (1 << 24) * 0.022f + 0.008f) * ((r & 1) != 0 ? -1.0f : 1.0f);
    if (type == DType::f32) {
      std::memcpy(out.data() + at, &value, 4);
    } else {
      const std::uint16_t bits = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(out.data() + at, &bits, 2);
    }
  }
}

void fill_blocks(std::span<std::byte> out, DType type, Random& random) {
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t r = random.next();
    std::memcpy(out.data() + at, &r, std::min<std::size_t>(8, out.size() - at));
  }
  const auto block = static_cast<std::size_t>(info(type).block_bytes);
  for (const Scale& s : kScales) {
    if (s.type != type) continue;
    const std::uint16_t bits = f32_to_f16(s.value);
    for (std::size_t at = 0; at + block <= out.size(); at += block)
      std::memcpy(out.data() + at + s.at, &bits, 2);
  }
}

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
    const DType type = type_for(type_, columns);
    std::vector<std::byte> data(static_cast<std::size_t>(rows * row_bytes(type, columns)));
    if (is_quantized(type))
      fill_blocks(data, type, random_);
    else
      fill_floats(data, type, random_);
    add(tensor, type, {rows, columns}, std::move(data));
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
  Random random_;
  std::vector<std::vector<std::byte>> kept_;
};

// Twice: the tensors and the file made of them exist together.
void check_memory(const RandomShape& s, DType type, std::int64_t layers) {
  const double per_layer =
      static_cast<double>(s.hidden) *
      static_cast<double>(2 * (s.heads + s.kv_heads) * s.head_dim + 3 * s.inner);
  const double values = per_layer * static_cast<double>(layers) +
                        static_cast<double>(s.vocab * s.hidden * (s.tied ? 1 : 2));
  const double need = 2 * values * info(type).block_bytes / info(type).block_elements,
               free = static_cast<double>(memory_info().available);
  if (free > 0 && need > free)
    fail(ErrorCode::memory,
         "not enough memory: making {} of {} needs {:.0f} MiB, {:.0f} MiB are available", s.name,
         name(type), need / (1 << 20), free / (1 << 20));
}

const RandomShape& find_shape(std::string_view wanted) {
  std::string known;
  for (const RandomShape& s : kShapes) {
    if (s.name == wanted) return s;
    known += (known.empty() ? "" : ", ") + std::string(s.name);
  }
  fail(ErrorCode::usage, "--random: expected {}, found \"{}\"", known, wanted);
}

}  // namespace

std::vector<std::string_view> random_model_names() {
  std::vector<std::string_view> names;
  for (const RandomShape& s : kShapes) names.push_back(s.name);
  return names;
}

LoadedModel random_model(std::string_view wanted, std::string_view type, std::int64_t layers) {
  const RandomShape& shape = find_shape(wanted);
  const std::optional<DType> dtype = dtype_from_name(type);
  const bool usable = dtype && (is_quantized(*dtype) ? *dtype != DType::xq8
                                                     : is_float(*dtype) && *dtype != DType::f64);
  if (!usable)
    fail(
        ErrorCode::unsupported,
        "--type: expected a type of matrices (f32, f16, bf16, q4_0, q8_0, q4_K, ...), found \"{}\"",
        type);
  const std::int64_t count = layers > 0 ? layers : shape.layers;
  check_memory(shape, *dtype, count);
  const auto owned = std::make_shared<OwnedFile>(ModelWriter(shape, *dtype, count).write(),
                                                 fmt::format("random {}", shape.name));
  return load_model(std::shared_ptr<const GgufFile>(owned, &owned->file), true);
}

}  // namespace rlx
