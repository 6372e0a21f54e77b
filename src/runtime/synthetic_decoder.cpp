#include "runtime/synthetic_decoder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "models/architecture.h"

namespace rlx {

/// Without a file all tensors share one region, as large as the largest.
class SyntheticDecoder::Weights : public WeightSource {
 public:
  Weights(const SyntheticShape& s, const std::filesystem::path& file) {
    matrix("token_embd.weight", s.vocab, s.hidden);
    matrix("output.weight", s.vocab, s.hidden);
    vector("output_norm.weight", s.hidden);
    for (std::int64_t i = 0; i < s.layers; ++i) {
      const std::string b = fmt::format("blk.{}.", i);
      vector(b + "attn_norm.weight", s.hidden);
      vector(b + "ffn_norm.weight", s.hidden);
      matrix(b + "attn_q.weight", s.heads * s.head_dim, s.hidden);
      matrix(b + "attn_k.weight", s.kv_heads * s.head_dim, s.hidden);
      matrix(b + "attn_v.weight", s.kv_heads * s.head_dim, s.hidden);
      matrix(b + "attn_output.weight", s.hidden, s.heads * s.head_dim);
      matrix(b + "ffn_gate.weight", s.inner, s.hidden);
      matrix(b + "ffn_up.weight", s.inner, s.hidden);
      matrix(b + "ffn_down.weight", s.hidden, s.inner);
    }
    if (file.empty())
      share_region();
    else
      map_file(file);
  }
  Weights(const Weights&) = delete;
  ~Weights() override {
    if (region_ != MAP_FAILED) munmap(region_, bytes_);
  }

  const WeightRef* find(std::string_view name) const override {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, ref] : tensors_) all.push_back(name);
    return all;
  }
  const std::string& origin() const override { return origin_; }

  std::int64_t touched_bytes() const {
    if (region_ == MAP_FAILED) return 0;
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> resident((bytes_ + page - 1) / page);
    if (mincore(region_, bytes_, resident.data()) != 0) return 0;
    const auto pages = std::count_if(resident.begin(), resident.end(), [](unsigned char r) { return (r & 1) != 0; });
    return static_cast<std::int64_t>(pages) * static_cast<std::int64_t>(page);
  }

 private:
  void share_region() {
    for (const auto& [name, size] : sizes_) bytes_ = std::max(bytes_, size);
    region_ = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region_ == MAP_FAILED)
      fail(ErrorCode::memory, "a synthetic decoder: no address space for {} bytes", bytes_);
    for (auto& [name, ref] : tensors_) ref.data = {static_cast<const std::byte*>(region_), sizes_[name]};
  }
  void map_file(const std::filesystem::path& path) {
    std::map<std::string, std::size_t> offsets;
    std::size_t at = 0;
    for (const auto& [name, size] : sizes_) {
      offsets[name] = at;
      at += static_cast<std::size_t>(round_up(static_cast<std::int64_t>(size), 64));
    }
    write_file_atomic(path, std::string_view("\0", 1));
    std::error_code error;
    std::filesystem::resize_file(path, at, error);
    if (error) fail(ErrorCode::io, "{}: cannot make a file of {} bytes: {}", path.string(), at, error.message());
    file_ = std::make_unique<MappedFile>(path);
    for (auto& [name, ref] : tensors_) {
      ref.data = file_->bytes().subspan(offsets[name], sizes_[name]);
      ref.file = file_.get();
    }
  }
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, std::int64_t bytes) {
    tensors_[name] = {name, dtype, std::move(shape), {}, nullptr};
    sizes_[name] = static_cast<std::size_t>(bytes);
  }
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    add(name, DType::q8_0, {rows, columns},
        require(checked_mul(rows, row_bytes(DType::q8_0, columns)), "a synthetic matrix"));
  }
  void vector(const std::string& name, std::int64_t n) { add(name, DType::f32, {n}, n * 4); }

  std::string origin_ = "synthetic decoder";
  std::map<std::string, WeightRef, std::less<>> tensors_;
  std::map<std::string, std::size_t, std::less<>> sizes_;
  std::unique_ptr<MappedFile> file_;
  std::size_t bytes_ = 0;
  void* region_ = MAP_FAILED;
};

SyntheticDecoder::SyntheticDecoder(const SyntheticShape& s)
    : SyntheticDecoder(s, std::make_shared<Weights>(s, std::filesystem::path())) {}

SyntheticDecoder::SyntheticDecoder(const SyntheticShape& s, const std::filesystem::path& file)
    : SyntheticDecoder(s, std::make_shared<Weights>(s, file)) {}

SyntheticDecoder::SyntheticDecoder(const SyntheticShape& s, std::shared_ptr<const Weights> weights)
    : weights_(std::move(weights)) {
  config_.architecture = "llama";
  config_.name = fmt::format("synthetic {} layers", s.layers);
  config_.file = weights_->origin();
  config_.format = ConfigFormat::gguf;
  config_.key_prefix = "llama";
  config_.vocab = s.vocab;
  config_.hidden = s.hidden;
  config_.inner = s.inner;
  config_.layers = s.layers;
  config_.heads = s.heads;
  config_.kv_heads = s.kv_heads;
  config_.head_dim = config_.value_dim = config_.rotary_dim = s.head_dim;
  config_.context = 8192;
  config_.activation = "silu";
  config_.rope.base = 500000;
  config_.windowed.assign(static_cast<std::size_t>(s.layers), false);
  config_.attention_scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  validate(config_, TensorLimits::of(*weights_));
}

BuiltModel SyntheticDecoder::build() const { return build_decoder(kLlama, config_, weights_, 0); }

std::int64_t SyntheticDecoder::touched_bytes() const { return weights_->touched_bytes(); }

}  // namespace rlx
