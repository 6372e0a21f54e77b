#include "runtime/step_inputs.h"

#include <algorithm>

#include "base/error.h"

namespace rlx {

bool StepInputs::knows(std::string_view input) {
  constexpr std::string_view names[kCount] = {"tokens", "positions", "seq_start",
                                              "past",   "slot",      "out_rows"};
  for (std::string_view n : names)
    if (n == input) return true;
  return false;
}

void StepInputs::reserve(std::int64_t rows, std::int64_t sequences) {
  const auto r = static_cast<std::size_t>(rows);
  tokens_.reserve(r);
  positions_.reserve(r);
  out_rows_.reserve(r);
  // A chunk may hold several parts of the same sequence.
  const std::size_t parts = std::max(r, static_cast<std::size_t>(sequences));
  seq_start_.reserve(parts + 1);
  past_.reserve(parts);
  slot_.reserve(parts);
}

void StepInputs::clear() {
  tokens_.clear();
  positions_.clear();
  seq_start_.assign(1, 0);
  past_.clear();
  slot_.clear();
  out_rows_.clear();
}

void StepInputs::add(std::int64_t slot, std::span<const std::int32_t> tokens, std::int64_t past,
                     Rows want) {
  const auto first = static_cast<std::int32_t>(tokens_.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    positions_.push_back(static_cast<std::int32_t>(past + static_cast<std::int64_t>(i)));
    if (want == Rows::all) out_rows_.push_back(first + static_cast<std::int32_t>(i));
  }
  if (want == Rows::last) out_rows_.push_back(static_cast<std::int32_t>(tokens_.size()) - 1);
  seq_start_.push_back(static_cast<std::int32_t>(tokens_.size()));
  past_.push_back(static_cast<std::int32_t>(past));
  slot_.push_back(static_cast<std::int32_t>(slot));
}

StepSizes StepInputs::sizes() const {
  return {static_cast<std::int64_t>(tokens_.size()), static_cast<std::int64_t>(out_rows_.size()),
          static_cast<std::int64_t>(past_.size())};
}

const std::int32_t* StepInputs::data(std::string_view input) const {
  if (input == "tokens") return tokens_.data();
  if (input == "positions") return positions_.data();
  if (input == "seq_start") return seq_start_.data();
  if (input == "past") return past_.data();
  if (input == "slot") return slot_.data();
  if (input == "out_rows") return out_rows_.data();
  RLX_CHECK(false, std::string(input));
  return nullptr;
}

}  // namespace rlx
