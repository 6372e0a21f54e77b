// What a specialised program needs from outside and gives back, by name (compiler.md, section 7).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/pipeline.h"

namespace rlx {

/// A named boundary of a program.
struct BindingEntry {
  std::string name;
  std::int32_t node = -1;  ///< operand of the LIR program
  Shape shape;             ///< bound sizes; of a param: as it is set, before any packing
  std::int64_t elements = 0;
  std::int64_t bytes = 0;  ///< of that shape; 0 for a state, whose capacity is the session's
  Place place = Place::arena;
  std::int64_t index = 0;  ///< arena: byte offset; else the number of the input, weight or state
  bool is_view = false;    ///< another reading of bytes that belong to something else
};

/// The params of one part of a model: "layers.3" with all that stands below it.
struct WeightBlock {
  std::string prefix;
  std::vector<std::int32_t> params;  ///< places in BindingManifest::params
  std::int64_t bytes = 0;
};

struct BindingManifest {
  std::string graph;
  std::int64_t arena_bytes = 0;
  std::int64_t alignment = 64;  ///< of every offset
  std::vector<BindingEntry> inputs, params, outputs, states;

  /// Each named boundary once, in the order of the graph. Error(invalid_argument): a template, which has no sizes.
  static BindingManifest from_lir(const Lir& lir);

  /// nullptr when there is none of that name.
  const BindingEntry* input(std::string_view name) const;
  const BindingEntry* param(std::string_view name) const;
  const BindingEntry* output(std::string_view name) const;
  const BindingEntry* state(std::string_view name) const;
  std::int64_t total_param_bytes() const;
  /// Params grouped by the first `depth` parts of their dotted names (all but the last part at most), in the order of
  /// their first param; depth 0 gives one block with an empty prefix.
  std::vector<WeightBlock> weight_blocks(int depth) const;
  std::string text() const;
};

}  // namespace rlx
