// Adapters as the PEFT library stores them: how adapter_config.json scales the factors, and what it may not ask for.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/safetensors_writer.h"
#include "models/lora.h"

namespace rlx {
namespace {

/// A folder with the factors of one product, of rank 4, and a config.
class LoraFile : public testing::Test {
 protected:
  static constexpr std::int64_t kRank = 4;

  LoraFile() : folder_(std::filesystem::temp_directory_path() / fmt::format("rlx_lora_file_test_{}", ::getpid())) {
    std::filesystem::create_directories(folder_);
    write_factors({});
  }
  ~LoraFile() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::filesystem::path file() const { return folder_ / "adapter_model.safetensors"; }

  void write_factors(std::string_view alpha) const {
    const std::vector<float> a(kRank * 3, 1.0f), b(2 * kRank, 1.0f);
    const std::int64_t a_dims[] = {kRank, 3}, b_dims[] = {2, kRank};
    const std::string product = "base_model.model.model.layers.0.self_attn.q_proj.";
    SafetensorsWriter writer;
    if (!alpha.empty()) writer.set_metadata("lora_alpha", alpha);
    writer.add(product + "lora_A.weight", DType::f32, a_dims, std::as_bytes(std::span(a)));
    writer.add(product + "lora_B.weight", DType::f32, b_dims, std::as_bytes(std::span(b)));
    writer.write(file());
  }
  void write_config(std::string_view json) const { std::ofstream(folder_ / "adapter_config.json") << json; }

  float scale_with(std::string_view config) const {
    write_config(config);
    return LoraAdapter::read(folder_).scale;
  }
  /// The message of the error with this code that reading `path` ends with.
  static std::string refusal(const std::filesystem::path& path, ErrorCode code) {
    try {
      static_cast<void>(LoraAdapter::read(path));
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

TEST_F(LoraFile, section12_TheScaleIsAlphaOverTheRankOrOverItsRoot) {
  EXPECT_EQ(LoraAdapter::read(folder_).scale, 1.0f) << "without a config";
  EXPECT_EQ(scale_with(R"({"r": 4, "lora_alpha": 16})"), 4.0f);
  EXPECT_EQ(scale_with(R"({"r": 4, "lora_alpha": 16, "use_rslora": false})"), 4.0f);
  EXPECT_EQ(scale_with(R"({"r": 4, "lora_alpha": 16, "use_rslora": true})"), 8.0f);
  EXPECT_EQ(LoraAdapter::read(file()).scale, 8.0f) << "a file reads the config beside it";
}

TEST_F(LoraFile, section12_ASavedAdapterKeepsItsScale) {
  write_config(R"({"lora_alpha": 16, "use_rslora": true})");
  const std::filesystem::path saved = folder_ / "saved.safetensors";
  LoraAdapter::read(folder_).write(saved);
  EXPECT_EQ(LoraAdapter::read(saved).scale, 8.0f) << "the config beside it is not its own";
}

TEST_F(LoraFile, section12_KeysThatWouldChangeTheResultAreRefusedByName) {
  struct Case {
    std::string_view key, value;
  };
  constexpr Case kRefused[] = {{"alpha_pattern", R"({"q_proj": 32})"},
                               {"rank_pattern", R"({"q_proj": 8})"},
                               {"fan_in_fan_out", "true"},
                               {"bias", R"("all")"},
                               {"bias", R"("lora_only")"}};
  for (const bool own_alpha : {false, true}) {
    write_factors(own_alpha ? "16" : "");
    for (const Case& c : kRefused) {
      write_config(fmt::format(R"({{"lora_alpha": 16, "{}": {}}})", c.key, c.value));
      const std::string what = refusal(folder_, ErrorCode::unsupported);
      EXPECT_NE(what.find(fmt::format("adapter_config.json: {}: expected", c.key)), std::string::npos) << what;
    }
    EXPECT_EQ(scale_with(R"({"lora_alpha": 16, "alpha_pattern": {}, "rank_pattern": null, "fan_in_fan_out": false,
                             "bias": "none"})"),
              4.0f)
        << "what PEFT writes for plain adapters";
  }
}

TEST_F(LoraFile, section12_AlphaIsFiniteAndAboveZero) {
  for (const std::string_view alpha : {"0", "-1", "1e300", "Infinity", "NaN", "\"16\"", "null"}) {
    write_config(fmt::format(R"({{"lora_alpha": {}}})", alpha));
    const std::string what = refusal(folder_, ErrorCode::format);
    EXPECT_NE(what.find("lora_alpha: expected a finite number above 0"), std::string::npos) << alpha << ": " << what;
  }
  for (const std::string_view alpha : {"0", "inf", "nan", "1e300", "16 "}) {
    write_factors(alpha);
    const std::string what = refusal(file(), ErrorCode::format);
    EXPECT_NE(what.find("lora_alpha: expected a finite number above 0"), std::string::npos) << alpha << ": " << what;
  }
}

}  // namespace
}  // namespace rlx
