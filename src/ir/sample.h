// Inputs worth testing: each op lists samples; the conformance test, the property tests and `rlx bench kernels` walk them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/op.h"

namespace rlx {

/// How an operand of a sample is filled. normal: Gaussian with `scale`; weights of block formats are encoded from normal
/// values. range: integers in [0, scale). given: `ints` as they are (indices, lengths). kv: a cache state, filled with normal
/// values for `past` tokens of each slot.
enum class Fill : std::uint8_t { normal, range, given, kv, pages, ones };

struct SampleOperand {
  Shape shape;                       ///< concrete sizes
  Fill fill = Fill::normal;
  float scale = 1.0f;
  std::vector<std::int32_t> ints;    ///< Fill::given; Fill::kv: tokens already cached, per slot
};

struct Sample {
  std::string name;
  AttrBlob op;
  std::vector<SampleOperand> operands;
  std::int64_t reduction = 1;        ///< K: terms of a sum, for the tolerance
};

template <typename Op>
Sample make_sample(std::string name, const Op& op, std::vector<SampleOperand> operands, std::int64_t reduction = 1) {
  return Sample{std::move(name), to_blob(op), std::move(operands), reduction};
}

}  // namespace rlx
