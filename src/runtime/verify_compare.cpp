#include "runtime/verify_compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace rlx {

float GoldenComparison::scale_of(std::span<const float> expected) {
  float scale = 1;
  for (const float v : expected) scale = std::max(scale, std::abs(v));
  return scale;
}

bool GoldenComparison::compare(const std::string& label, std::span<const float> found, std::span<const float> expected,
                               float scale) {
  RLX_CHECK(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double diff = std::abs(static_cast<double>(found[i]) - expected[i]) / scale;
    if (!(diff <= std::numeric_limits<float>::max())) {
      result_.diff = std::numeric_limits<double>::quiet_NaN();  // differs from everything, and stays
      fault(label, "values that are not finite");
      return false;
    }
    result_.diff = std::max(result_.diff, diff);
    if (diff > result_.tolerance) note(fmt::format("{}: {:.3g}", label, diff));
  }
  return true;
}

void GoldenComparison::fault(const std::string& label, const std::string& what) {
  failed_ = true;
  note(fmt::format("{}: {}", label, what));
}

void GoldenComparison::note(std::string why) {
  if (result_.why.empty()) result_.why = std::move(why);
}

}  // namespace rlx
