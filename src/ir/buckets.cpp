#include "ir/buckets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"

namespace rlx {

BucketRule BucketRule::ladder(double waste) {
  if (!(waste > 0))
    fail(ErrorCode::invalid_argument, "bucket ladder: expected a waste above 0, found {}", waste);
  BucketRule rule;
  std::int64_t steps = 1;
  // Below 2^-61 every size of 64 bits has a step of its own: that is the exact rule.
  constexpr std::int64_t most = std::int64_t{1} << 61;
  while (steps < most && static_cast<double>(steps) * waste < 1) steps *= 2;
  if (steps < most) rule.steps_ = steps;
  return rule;
}

BucketRule BucketRule::list(std::vector<std::int64_t> sizes) {
  if (sizes.empty())
    fail(ErrorCode::invalid_argument, "bucket list: expected at least one size, found none");
  std::int64_t before = 0;
  for (const std::int64_t size : sizes) {
    if (size <= before)
      fail(ErrorCode::invalid_argument,
           "bucket list: expected sizes that ascend from above 0, found {} after {}", size, before);
    before = size;
  }
  BucketRule rule;
  rule.sizes_ = std::move(sizes);
  return rule;
}

std::int64_t BucketRule::upper(Symbol of, std::int64_t size) const {
  if (size < 0)
    fail(ErrorCode::invalid_argument, "symbol \"{}\": expected a size of at least 0, found {}",
         of.name(), size);
  if (!sizes_.empty()) {
    const auto it = std::lower_bound(sizes_.begin(), sizes_.end(), size);
    if (it == sizes_.end())
      fail(ErrorCode::limit,
           "symbol \"{}\": expected a size of at most {}, the last bucket, found {}", of.name(),
           sizes_.back(), size);
    return *it;
  }
  if (steps_ == 0 || size == 0) return size;
  const auto octave = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
  const std::optional<std::int64_t> up =
      checked_round_up(size, std::max<std::int64_t>(1, octave / steps_));
  if (!up)
    fail(ErrorCode::limit, "symbol \"{}\": the bucket of {} does not fit in 64 bits", of.name(),
         size);
  return *up;
}

void BucketRule::write_key(KeyWriter& key) const {
  key.integer("steps", steps_).list("sizes", sizes_.size());
  for (const std::int64_t size : sizes_) key.integer("size", size);
}

std::string BucketRule::text() const {
  if (!sizes_.empty()) return fmt::format("{}", fmt::join(sizes_, ", "));
  if (steps_ == 0) return "exact";
  return fmt::format("ladder of {} step{}", steps_, steps_ == 1 ? "" : "s");
}

BucketPolicy& BucketPolicy::set(Symbol symbol, BucketRule rule) {
  rules_.insert_or_assign(symbol, std::move(rule));
  return *this;
}

BucketPolicy& BucketPolicy::set_others(BucketRule rule) {
  others_ = std::move(rule);
  return *this;
}

// By id: a look-up in the map compares names, and there are a handful of rules.
const BucketRule& BucketPolicy::rule(Symbol symbol) const {
  for (const auto& [of, own] : rules_)
    if (of == symbol) return own;
  return others_;
}

std::int64_t BucketPolicy::upper(Symbol symbol, std::int64_t size) const {
  return rule(symbol).upper(symbol, size);
}

DimBinding BucketPolicy::round(const DimBinding& binding) const {
  DimBinding rounded;
  for (const auto& [symbol, size] : binding.sizes()) rounded.set(symbol, upper(symbol, size));
  return rounded;
}

std::map<Symbol, BucketRule> BucketPolicy::own_rules() const {
  std::map<Symbol, BucketRule> own = rules_;
  std::erase_if(own, [&](const auto& entry) { return entry.second == others_; });
  return own;
}

bool operator==(const BucketPolicy& a, const BucketPolicy& b) {
  return a.others_ == b.others_ && a.own_rules() == b.own_rules();
}

void BucketPolicy::write_key(KeyWriter& key) const {
  const std::map<Symbol, BucketRule> own = own_rules();
  others_.write_key(key);
  key.list("rules", own.size());
  for (const auto& [symbol, rule] : own) {
    key.text("symbol", symbol.name());
    rule.write_key(key);
  }
}

Digest BucketPolicy::digest() const {
  KeyWriter key("buckets");
  write_key(key);
  return key.finish();
}

}  // namespace rlx
