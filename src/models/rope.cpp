#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace rlx {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

/// base^(2i / rotary) in float32, the exponent rounded first.
std::vector<float> powers(double base, std::int64_t rotary) {
  std::vector<float> p(static_cast<std::size_t>(rotary / 2));
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotary);
    p[i] = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(base)), static_cast<double>(exponent)));
  }
  return p;
}

std::vector<float> inverse(std::vector<float> p) {
  for (float& v : p) v = 1.0f / v;
  return p;
}

std::int64_t original_of(const RopeConfig& c, std::int64_t context) {
  return c.original_context > 0 ? c.original_context : context;
}

/// NTK: the base that keeps the slowest frequency in the trained range at `session` tokens.
double dynamic_base(const RopeConfig& c, std::int64_t rotary, std::int64_t context,
                    std::int64_t session) {
  if (session <= context || rotary <= 2) return c.base;
  const double ratio =
      c.factor * static_cast<double>(session) / static_cast<double>(context) - (c.factor - 1.0);
  const auto n = static_cast<double>(rotary);
  return c.base * std::pow(ratio, n / (n - 2.0));
}

/// The lane that turns `rotations` times over the original context.
double yarn_lane(const RopeConfig& c, double rotations, double rotary, double original) {
  return rotary * std::log(original / (rotations * kTwoPi)) / (2.0 * std::log(c.base));
}

std::vector<float> yarn(const RopeConfig& c, std::int64_t rotary, std::int64_t context) {
  const auto n = static_cast<double>(rotary),
             original = static_cast<double>(original_of(c, context));
  double low = yarn_lane(c, c.beta_fast, n, original),
         high = yarn_lane(c, c.beta_slow, n, original);
  if (c.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, n - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> p = powers(c.base, rotary);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0f,
        1.0f);
    const float keep = 1.0f - ramp;
    const float interpolated = 1.0f / (static_cast<float>(c.factor) * p[i]),
                extrapolated = 1.0f / p[i];
    p[i] = interpolated * (1.0f - keep) + extrapolated * keep;
  }
  return p;
}

double yarn_term(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

std::vector<float> llama3(const RopeConfig& c, std::int64_t rotary, std::int64_t context) {
  const auto original = static_cast<double>(original_of(c, context));
  const double low_wavelength = original / c.low_freq_factor,
               high_wavelength = original / c.high_freq_factor;
  std::vector<float> f = inverse(powers(c.base, rotary));
  for (float& v : f) {
    const double wavelength = kTwoPi / static_cast<double>(v);
    const double scaled = static_cast<double>(v) / c.factor;
    if (wavelength > low_wavelength) {
      v = static_cast<float>(scaled);
    } else if (wavelength >= high_wavelength) {
      const double smooth =
          (original / wavelength - c.low_freq_factor) / (c.high_freq_factor - c.low_freq_factor);
      v = static_cast<float>((1.0 - smooth) * scaled + smooth * static_cast<double>(v));
    }
  }
  return f;
}

std::vector<float> longrope(const RopeConfig& c, std::int64_t rotary, std::int64_t context,
                            std::int64_t session) {
  const std::vector<float>& factors =
      session > original_of(c, context) ? c.long_factor : c.short_factor;
  std::vector<float> p = powers(c.base, rotary);
  RLX_CHECK(factors.size() == p.size());
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = 1.0f / (factors[i] * p[i]);
  return p;
}

double longrope_magnitude(const RopeConfig& c, std::int64_t context) {
  const auto original = static_cast<double>(original_of(c, context));
  return c.factor <= 1.0 || original <= 1.0
             ? 1.0
             : std::sqrt(1.0 + std::log(c.factor) / std::log(original));
}

double magnitude(const RopeConfig& c, std::int64_t context) {
  if (c.scaling != RopeScaling::yarn && c.scaling != RopeScaling::longrope) return 1.0;
  if (c.attention_factor) return *c.attention_factor;
  if (c.scaling == RopeScaling::longrope) return longrope_magnitude(c, context);
  if (c.mscale != 0.0 && c.mscale_all_dim != 0.0)
    return yarn_term(c.factor, c.mscale) / yarn_term(c.factor, c.mscale_all_dim);
  return yarn_term(c.factor, 1.0);
}

std::vector<float> frequencies(const RopeConfig& c, std::int64_t rotary, std::int64_t context,
                               std::int64_t session) {
  switch (c.scaling) {
    case RopeScaling::none:
      return inverse(powers(c.base, rotary));
    case RopeScaling::linear: {
      std::vector<float> f = inverse(powers(c.base, rotary));
      for (float& v : f) v /= static_cast<float>(c.factor);
      return f;
    }
    case RopeScaling::dynamic:
      return inverse(powers(dynamic_base(c, rotary, context, session), rotary));
    case RopeScaling::yarn:
      return yarn(c, rotary, context);
    case RopeScaling::llama3:
      return llama3(c, rotary, context);
    case RopeScaling::longrope:
      return longrope(c, rotary, context, session);
  }
  RLX_CHECK(false, "a RopeScaling outside the enumeration");
  return {};
}

}  // namespace

RopeTable rope_table(const RopeConfig& config, std::int64_t rotary, std::int64_t context,
                     std::int64_t session, std::span<const float> divisors) {
  RopeTable table{frequencies(config, rotary, context, session),
                  static_cast<float>(magnitude(config, context))};
  RLX_CHECK(divisors.empty() || divisors.size() == table.inv_freq.size());
  for (std::size_t i = 0; i < divisors.size(); ++i) table.inv_freq[i] /= divisors[i];
  return table;
}

}  // namespace rlx
