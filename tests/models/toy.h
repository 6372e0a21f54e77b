// A toy Llama as a GGUF file in memory: 2 layers, hidden 32, 4 heads over 2 KV heads of 8 lanes,
// inner 48, vocabulary 16.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/gguf_writer.h"
#include "models/load.h"

namespace rlx::toy {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

/// One metadata value; a key of a spec that is replaced by one without `put` is left out.
using Put = std::function<void(GgufWriter&, const std::string&)>;

inline Put u32(std::int64_t v) {
  return [v](GgufWriter& w, const std::string& key) { w.put_int(key, GgufType::u32, v); };
}
inline Put f32(double v) {
  return [v](GgufWriter& w, const std::string& key) { w.put_float(key, GgufType::f32, v); };
}
inline Put text(std::string v) {
  return [v](GgufWriter& w, const std::string& key) { w.put_string(key, v); };
}

struct Spec {
  std::map<std::string, Put> metadata;
  Shapes tensors;
};

inline Spec llama(std::int64_t layers = 2) {
  Spec s;
  s.metadata = {{"general.architecture", text("llama")},
                {"llama.block_count", u32(layers)},
                {"llama.context_length", u32(64)},
                {"llama.embedding_length", u32(32)},
                {"llama.feed_forward_length", u32(48)},
                {"llama.attention.head_count", u32(4)},
                {"llama.attention.head_count_kv", u32(2)},
                {"llama.attention.layer_norm_rms_epsilon", f32(1e-5)},
                {"llama.rope.dimension_count", u32(8)}};
  s.tensors = {{"token_embd.weight", {16, 32}}, {"output_norm.weight", {32}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string blk = "blk." + std::to_string(i) + ".";
    s.tensors[blk + "attn_norm.weight"] = {32};
    s.tensors[blk + "attn_q.weight"] = {32, 32};
    s.tensors[blk + "attn_k.weight"] = {16, 32};
    s.tensors[blk + "attn_v.weight"] = {16, 32};
    s.tensors[blk + "attn_output.weight"] = {32, 32};
    s.tensors[blk + "ffn_norm.weight"] = {32};
    s.tensors[blk + "ffn_gate.weight"] = {48, 32};
    s.tensors[blk + "ffn_up.weight"] = {48, 32};
    s.tensors[blk + "ffn_down.weight"] = {32, 48};
  }
  return s;
}

/// A file in memory and its bytes.
struct Loaded {
  std::vector<std::byte> bytes;
  LoadedModel model;
};

inline Loaded load(const Spec& spec, std::int64_t context = 0) {
  GgufWriter w;
  for (const auto& [key, put] : spec.metadata)
    if (put) put(w, key);
  std::vector<float> values(4096, 1.0f);  // tensors are at most 48 x 32
  for (const auto& [name, shape] : spec.tensors) {
    std::size_t n = 1;
    for (const std::int64_t d : shape) n *= static_cast<std::size_t>(d);
    w.add_tensor(name, DType::f32, shape, std::as_bytes(std::span(values).first(n)));
  }
  Loaded out;
  out.bytes = w.bytes();
  auto file = std::make_shared<const GgufFile>(GgufFile::from_bytes(out.bytes, "toy.gguf"));
  out.model = load_model(std::move(file), true, BuildOptions{context});
  return out;
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace rlx::toy
