// The batch descriptor of one step (architecture.md, section 3): the i32 inputs of every decoder
// graph.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace rlx {

class StepInputs {
 public:
  static constexpr std::size_t kCount = 6;  ///< tokens, positions, seq_start, past, slot, out_rows
  static bool knows(std::string_view input);

  void reserve(std::int64_t rows, std::int64_t sequences);
  void clear();

  enum class Rows : std::uint8_t { none, last, all };
  /// Appends tokens of one sequence at positions past, past + 1, ...
  void add(std::int64_t slot, std::span<const std::int32_t> tokens, std::int64_t past, Rows want);

  StepSizes sizes() const;
  const std::int32_t* data(std::string_view input) const;

 private:
  std::vector<std::int32_t> tokens_, positions_, seq_start_ = {0}, past_, slot_, out_rows_;
};

}  // namespace rlx
