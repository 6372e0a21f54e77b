// Inputs worth testing: each op lists samples; the conformance test, the property tests and `rlx
// bench kernels` walk them. ops/materialize.h makes the values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/op.h"

namespace rlx {

/// How an operand of a sample is filled.
/// normal: about Gaussian with deviation `scale`; a block format is encoded from such values, or,
/// where it has no encoder, gets
///         random blocks with finite scales of that size. scale = 0: all zeros.
/// range: integers in [0, scale), or in [scale, 0) for a scale below 0.
/// given: `ints` as they are (indices, starts, lengths, positions).
/// ones: all 1.
/// frequencies: element i of n is scale^(-i/n): the inverse frequencies of RoPE with that base.
/// kv: a cache state. `ints` has one entry for each slot of the session: how many tokens the slot
/// holds before the call,
///     filled with normal values for keys and values alike; the rest of the cache is zero. Slots
///     that no sequence of the sample uses hold tokens too: a kernel must leave them alone.
/// pages: the page table: `ints` is i32[slots, pages per slot], row-major, slots = ints.size() of
/// the kv operand. A fixed
///     permutation of all page ids 0 .. ints.size() - 1 (the capacity of the cache), so that no
///     slot has neighbouring pages.
/// Every sample with a cache has exactly one operand of each of these two.
/// recurrent: a recurrent state of ints[0] slots, filled with normal values: what stands in the slot
/// of a sequence that begins must not be read. A sample has at most one, and then no cache.
enum class Fill : std::uint8_t { normal, range, given, kv, pages, ones, frequencies, recurrent };

struct SampleOperand {
  Shape shape;  ///< concrete sizes
  Fill fill = Fill::normal;
  float scale = 1.0f;
  std::vector<std::int32_t> ints;  ///< Fill::given, kv, pages and recurrent
};

struct Sample {
  std::string name;
  AttrBlob op;
  std::vector<SampleOperand> operands;
  std::int64_t reduction = 1;  ///< K: terms of a sum, for the tolerance
};

template <typename Op>
Sample make_sample(std::string name, const Op& op, std::vector<SampleOperand> operands,
                   std::int64_t reduction = 1) {
  return Sample{std::move(name), to_blob(op), std::move(operands), reduction};
}

}  // namespace rlx
