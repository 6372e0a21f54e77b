// Buckets: the upper size that a plan is made for, from the size that was asked for (compiler.md,
// section 2).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/key_writer.h"
#include "tensor/dim.h"

namespace rlx {

/// The rule of one symbol.
class BucketRule {
 public:
  /// Every size is its own bucket.
  BucketRule() = default;
  static BucketRule exact() { return {}; }
  /// Powers of two with sub-steps: the sizes of (2^k, 2^(k+1)] are rounded up to multiples of
  /// 2^k / steps, where steps is the least power of two that is at least 1 / waste. So
  /// upper < size * (1 + waste) for every size, with steps buckets per doubling: 1 gives plain
  /// powers of two, 0.25 gives 8, 10, 12, 14, 16, 20, ... A waste above 1 is taken as 1.
  /// Error(invalid_argument) for a waste that is not above 0.
  static BucketRule ladder(double waste);
  /// These sizes; a larger one is an error. Error(invalid_argument) for an empty list, or one that
  /// does not ascend from above 0.
  static BucketRule list(std::vector<std::int64_t> sizes);

  /// The bucket of a size; `of` names the symbol in messages. Errors: invalid_argument (a negative
  /// size); limit (above the last of a list, above 64 bits).
  std::int64_t upper(Symbol of, std::int64_t size) const;
  void write_key(KeyWriter& key) const;
  std::string text() const;  ///< "exact", "ladder of 4 steps", "8, 64, 512"
  bool operator==(const BucketRule&) const = default;

 private:
  std::int64_t steps_ = 0;           ///< of a ladder, per doubling; 0: none
  std::vector<std::int64_t> sizes_;  ///< of a list
};

/// A rule per symbol, and one for all others (exact unless it is set).
class BucketPolicy {
 public:
  BucketPolicy() = default;
  static BucketPolicy exact() { return {}; }

  BucketPolicy& set(Symbol symbol, BucketRule rule);
  BucketPolicy& set_others(BucketRule rule);
  const BucketRule& rule(Symbol symbol) const;

  /// Errors as BucketRule::upper.
  std::int64_t upper(Symbol symbol, std::int64_t size) const;
  /// Every size of the binding replaced by its bucket.
  DimBinding round(const DimBinding& binding) const;
  /// Equal for policies that round alike: a rule that repeats the one for others does not count.
  Digest digest() const;
  void write_key(KeyWriter& key) const;
  friend bool operator==(const BucketPolicy& a, const BucketPolicy& b);

 private:
  std::map<Symbol, BucketRule> own_rules() const;  ///< those that differ from others_

  std::map<Symbol, BucketRule> rules_;
  BucketRule others_;
};

}  // namespace rlx
