// Rotary frequencies under every scaling of the decoder families.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace rlx {

/// none: base^(-2i/n). linear: positions divided by the factor. dynamic: the base grows with the
/// session's context (NTK). yarn: https://arxiv.org/abs/2309.00071. llama3: by wavelength (Llama
/// 3.1). longrope: divisors per frequency (https://arxiv.org/abs/2402.13753).
enum class RopeScaling : std::uint8_t { none, linear, dynamic, yarn, llama3, longrope };
inline constexpr std::array<std::string_view, 6> kRopeScalingNames = {"none", "linear", "dynamic",
                                                                      "yarn", "llama3", "longrope"};
constexpr std::string_view name(RopeScaling s) {
  return kRopeScalingNames[static_cast<std::size_t>(s)];
}

/// What a checkpoint says of its rotary positions.
struct RopeConfig {
  RopeScaling scaling = RopeScaling::none;
  double base = 10000.0;
  double factor = 1.0;  ///< by which the context was extended
  std::int64_t original_context =
      0;  ///< tokens of the training before the extension; 0: the model's context
  std::optional<double> attention_factor;  ///< an explicit magnitude wins over the formulas
  double mscale = 0.0,
         mscale_all_dim =
             0.0;  ///< YaRN: when both are set the magnitude is the ratio of their terms
  double beta_fast = 32.0, beta_slow = 1.0;  ///< YaRN: rotations that bound the ramp
  bool truncate = true;                      ///< YaRN: the ramp's bounds are whole lanes
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  ///< llama3
  std::vector<float> short_factor, long_factor;          ///< longrope: [rotary / 2]
  bool operator==(const RopeConfig&) const = default;
};

struct RopeTable {
  std::vector<float> inv_freq;  ///< [rotary / 2]: angle = position * inv_freq[i]
  float magnitude = 1.0f;       ///< factor of cos and sin
};

/// The table of one model. `context` is what the checkpoint was made for, `session` what this
/// session holds (dynamic and longrope depend on it); `divisors` (empty or [rotary / 2]) divide the
/// frequencies, as `rope_freqs.weight` of a GGUF file does. Rounded to float32 step by step as HF
/// transformers does, whose results are the reference. The config was validated.
RopeTable rope_table(const RopeConfig& config, std::int64_t rotary, std::int64_t context,
                     std::int64_t session, std::span<const float> divisors = {});

}  // namespace rlx
