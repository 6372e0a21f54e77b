// Samples made from those of an op: other sizes, other sequences, other attributes. infer() decides what an op takes,
// so one way of making them serves every op. The conformance test walks random ones, `rlx bench kernels` large ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "ops/samples.h"

namespace rlx {

/// Whether infer() takes the sample and whole blocks fit its rows.
bool takes(const OpDef& def, const Sample& sample);

/// Elements of all tensors among operands and results; of a sample that the op takes.
std::int64_t sample_elements(const OpDef& def, const Sample& sample);

/// Which sizes follow one that changes.
enum class Follow : std::uint8_t {
  equal,      ///< equal ones
  multiples,  ///< multiples of it too, in proportion: the width of all heads follows that of one
  halves,     ///< its half, and its half plus one, too: inverse frequencies, real transforms
};
/// On which axes of the operands sizes follow. The others keep theirs: a number of rows may equal a width by chance.
enum class OnAxes : std::uint8_t { all, first, last };

struct SizeChange {
  std::int64_t from = 1, to = 1;
  Follow follow = Follow::equal;
  OnAxes axes = OnAxes::all;
  bool attributes = true;  ///< integers and sizes among the attributes follow
};
/// Nothing when the op does not take the result. Given starts keep their proportions, other given integers repeat. The
/// rows of a sample with sequences stay: with_batch() changes those.
std::optional<Sample> resized(const OpDef& def, const Sample& sample, const SizeChange& change);

/// The sample on other sequences; nothing for a sample without (a state, seq_start, past and slot).
std::optional<Sample> with_batch(const OpDef& def, const Sample& sample, const samples::Batch& batch);

/// A random sample near another, about as large at most: the same one for the same seed on every machine. An op that
/// takes no change of a sample gets it back.
Sample vary(const OpDef& def, const Sample& sample, std::uint64_t seed);

/// Everything about a sample in one line, for messages: name, attributes, shapes, fills, integers.
std::string describe(const OpDef& def, const Sample& sample);

}  // namespace rlx
