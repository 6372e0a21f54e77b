// Models with experts: the layouts that checkpoints store them in, and what is wrong with a file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <list>
#include <random>

#include "error_text.h"
#include "formats/safetensors_writer.h"
#include "models/toy.h"
#include "runtime/decoder.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kExperts = 4, kInner = 32, kHidden = 32;

// A toy of the family "qwen3moe" with tensors [experts, n, k] as GGUF files have them; the first layer has an MLP.
class MoeToy {
 public:
  explicit MoeToy(DType type) : type_(type), spec_(toy::llama()) {
    toy::Spec spec;
    for (auto& [key, put] : spec_.metadata) {
      const std::string name = key.starts_with("llama.") ? "qwen3moe." + key.substr(6) : key;
      spec.metadata[name] = key == "general.architecture" ? toy::text("qwen3moe") : put;
    }
    spec.metadata["qwen3moe.expert_count"] = toy::u32(kExperts);
    spec.metadata["qwen3moe.expert_used_count"] = toy::u32(2);
    spec.metadata["qwen3moe.expert_feed_forward_length"] = toy::u32(kInner);
    spec.tensors = spec_.tensors;
    for (const std::string blk : {"blk.0.", "blk.1."}) {
      spec.tensors[blk + "attn_q_norm.weight"] = {8};
      spec.tensors[blk + "attn_k_norm.weight"] = {8};
    }
    for (const char* dense : {"ffn_gate", "ffn_up", "ffn_down"})
      spec.tensors.erase(fmt::format("blk.1.{}.weight", dense));
    spec.tensors["blk.1.ffn_gate_inp.weight"] = {kExperts, kHidden};
    spec.tensors["blk.1.ffn_gate_exps.weight"] = {kExperts, kInner, kHidden};
    spec.tensors["blk.1.ffn_up_exps.weight"] = {kExperts, kInner, kHidden};
    spec.tensors["blk.1.ffn_down_exps.weight"] = {kExperts, kHidden, kInner};
    spec_ = std::move(spec);
  }

  toy::Spec& spec() { return spec_; }

  LoadedModel load() {
    GgufWriter w;
    for (const auto& [key, put] : spec_.metadata)
      if (put) put(w, key);
    std::mt19937 random(5);
    data_.clear();
    for (const auto& [name, shape] : spec_.tensors) {
      const bool experts = shape.size() == 3;
      const DType d = experts ? type_ : DType::f32;
      std::int64_t rows = 1;
      for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
      std::normal_distribution<float> normal(shape.size() == 1 ? 1.0f : 0.0f, shape.size() == 1 ? 0.1f : 0.2f);
      std::vector<float> row(static_cast<std::size_t>(shape.back()));
      data_.emplace_back(static_cast<std::size_t>(rows * row_bytes(d, shape.back())));
      for (std::int64_t r = 0; r < rows; ++r) {
        for (float& v : row) v = normal(random);
        encoder(d)(row.data(), data_.back().data() + r * row_bytes(d, shape.back()), shape.back());
      }
      w.add_tensor(name, d, shape, data_.back());
    }
    files_.push_back(w.bytes());
    return load_model(std::make_shared<const GgufFile>(GgufFile::from_bytes(files_.back(), "moe.gguf")), true);
  }

 private:
  DType type_;
  toy::Spec spec_;
  std::vector<std::vector<std::byte>> data_;
  std::list<std::vector<std::byte>> files_;  // what the models made so far read from
};

std::vector<float> logits_of(LoadedModel model, const DecoderOptions& options) {
  Decoder decoder(std::move(model), options);
  const std::vector<std::int32_t> tokens = {1, 7, 3, 9, 12};
  const auto logits = decoder.step(tokens, Decoder::Want::all);
  return {logits.begin(), logits.end()};
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    most = std::max(most, std::abs(double{a[i]} - double{b[i]}));
  return most;
}

DecoderOptions exactly(std::string_view device) {
  DecoderOptions o;
  o.device = Device::parse(device);
  o.threads = 2;
  o.compile.precision.activations = Activations::f32;
  return o;
}

TEST(section11_Moe, GgufStacksOfExpertsRunOnKernelsAsOnTheReference) {
  for (const DType type : {DType::f32, DType::f16, DType::q8_0, DType::q4_0}) {
    MoeToy toy(type);
    const LoadedModel model = toy.load();
    EXPECT_TRUE(model.model.unused.empty());
    EXPECT_FALSE(model.config.moe.is_sparse(0));
    EXPECT_TRUE(model.config.moe.is_sparse(1));
    const std::vector<float> native = logits_of(toy.load(), exactly("cpu")),
                             reference = logits_of(toy.load(), exactly("reference"));
    EXPECT_LT(largest_difference(native, reference), 1e-4) << name(type);
    // Int8 activations change a little and not everything.
    DecoderOptions rounded;
    const double moved = largest_difference(logits_of(toy.load(), rounded), reference);
    EXPECT_LT(moved, 0.5) << name(type);
  }
}

TEST(section11_Moe, CountsThatAFileClaimsAreChecked) {
  MoeToy none(DType::f32);
  none.spec().metadata["qwen3moe.expert_used_count"] = toy::u32(5);
  EXPECT_EQ(test::error_text([&] { none.load(); }),
            "moe.gguf: qwen3moe.expert_used_count: expected 1 to 4 (qwen3moe.expert_count), found 5");
  MoeToy many(DType::f32);
  many.spec().metadata["qwen3moe.expert_count"] = toy::u32(1000000);
  EXPECT_NE(test::error_text([&] { many.load(); }).find("expert_count: expected 0 to"), std::string::npos);
  MoeToy other(DType::f32);
  other.spec().tensors["blk.1.ffn_up_exps.weight"] = {kExperts, kInner + 1, kHidden};
  EXPECT_NE(test::error_text([&] { other.load(); })
                .find("blk.1.ffn_up_exps.weight: expected [4, 32, 32], found f32[4, 33, 32]"),
            std::string::npos);
}

fs::path golden_moe() { return fs::path(RLX_TEST_DIR) / "goldens/models/qwen3_moe"; }

TEST(section11_Moe, ExpertsOfAHubFolderAreJoinedWhereTheyLie) {
  const LoadedModel loaded = load_model(golden_moe());
  std::int64_t joined = 0;
  for (const ModelParam& p : loaded.model.params) {
    if (p.parts.empty()) continue;
    ++joined;
    ASSERT_EQ(p.parts.size(), 8u) << p.name;
    for (std::size_t e = 0; e < p.parts.size(); ++e) {
      std::string key = p.name;
      key.replace(key.find(".all."), 5, "." + std::to_string(e) + ".");
      EXPECT_EQ(p.parts[e].data.data(), loaded.model.weights->find(key)->data.data());
    }
  }
  EXPECT_EQ(joined, 3) << "gate, up and down of the one layer with experts";
}

// The golden with its experts as transformers 5 holds them: gate and up in the rows of one tensor.
class FusedGolden {
 public:
  explicit FusedGolden(const LoadedModel& source)
      : folder_(fs::temp_directory_path() / fmt::format("rlx_moe_{}", ::getpid())) {
    fs::create_directories(folder_);
    fs::copy_file(golden_moe() / "config.json", folder_ / "config.json", fs::copy_options::overwrite_existing);
    const WeightSource& weights = *source.model.weights;
    std::vector<std::byte> gate_up, down;
    const auto append = [&](std::vector<std::byte>& to, const std::string& key) {
      const auto data = weights.find(key)->data;
      to.insert(to.end(), data.begin(), data.end());
    };
    const std::string experts = "model.layers.1.mlp.experts.";
    for (int e = 0; e < 8; ++e) {
      append(gate_up, fmt::format("{}{}.gate_proj.weight", experts, e));
      append(gate_up, fmt::format("{}{}.up_proj.weight", experts, e));
      append(down, fmt::format("{}{}.down_proj.weight", experts, e));
    }
    SafetensorsWriter w;
    for (const std::string& name : weights.names()) {
      const WeightRef& t = *weights.find(name);
      if (name.find(".experts.") == std::string::npos) w.add(name, t.dtype, t.shape, t.data);
    }
    w.add(experts + "gate_up_proj", DType::f32, std::vector<std::int64_t>{8, 80, 64}, gate_up);
    w.add(experts + "down_proj", DType::f32, std::vector<std::int64_t>{8, 64, 40}, down);
    w.write(folder_ / "model.safetensors");
  }
  ~FusedGolden() { fs::remove_all(folder_); }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
};

TEST(section11_Moe, FusedRowsOfGateAndUpGiveTheSameBits) {
  const FusedGolden fused(load_model(golden_moe()));
  const LoadedModel loaded = load_model(fused.folder());
  EXPECT_TRUE(loaded.model.unused.empty());
  EXPECT_EQ(logits_of(load_model(fused.folder()), exactly("cpu")),
            logits_of(load_model(golden_moe()), exactly("cpu")));
}

}  // namespace
}  // namespace rlx
