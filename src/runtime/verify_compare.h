// What all comparisons with reference results share: the worst difference, and why a model fails.
#pragma once

#include <span>
#include <string>

#include "runtime/verify.h"

namespace rlx {

/// Keeps the worst of all cases in a GoldenResult.
class GoldenComparison {
 public:
  explicit GoldenComparison(GoldenResult& result) : result_(result) {}

  /// What differences are divided by: max(1, largest |value|).
  static float scale_of(std::span<const float> expected);
  /// Compares values of a case; false, and a fault, when one is not finite. The spans are of equal size.
  bool compare(const std::string& label, std::span<const float> found, std::span<const float> expected, float scale);
  bool compare(const std::string& label, std::span<const float> found, std::span<const float> expected) {
    return compare(label, found, expected, scale_of(expected));
  }
  /// A case that is wrong whatever the tolerance.
  void fault(const std::string& label, const std::string& what);

  bool failed() const { return failed_; }
  GoldenResult& result() { return result_; }

 private:
  void note(std::string why);

  GoldenResult& result_;
  bool failed_ = false;
};

}  // namespace rlx
