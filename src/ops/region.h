// Regions: element-wise ops and reductions over the last axis that run in one pass over memory (kernels.md, section 3).
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"
#include "ops/region_code.h"

namespace rlx {

/// A region as a list of ops. Values are the inputs, then the results of the instructions, in order.
struct RegionInstr {
  const OpDef* op = nullptr;
  AttrBlob attrs{};
  std::vector<int> in;
};
struct RegionInput {
  DType dtype = DType::f32;  ///< f32, f16, bf16 or boolean
  bool column = false;       ///< one value per row: last dim 1
};
struct RegionProgram {
  std::vector<RegionInput> inputs;
  std::vector<RegionInstr> code;
  std::vector<int> outputs;  ///< values
  /// "{f32,f16.row;mul(0,1);unary(2):fn=exp->3}": ".row" marks the columns.
  std::string text() const;
};

/// A program in the table of this process: programs of equal text have equal handles. Attributes hold the handle; in
/// text, keys and files stands the program itself.
struct RegionId {
  std::int32_t value = 0;  ///< 0: the program that gives its one input back
  bool operator==(const RegionId&) const = default;
};

/// Whether an op with these attributes may stand in a region: element-wise ops of floats and booleans, and RmsNorm (of
/// the whole axis), LayerNorm, Softmax, LogSoftmax and Reduce along axis -1.
bool region_member(const OpDef& op, const AttrBlob& attrs);
/// The handle of a program. Errors: invalid_argument (a value that is not there, an op that may not stand in a region
/// or has another number of operands, a column where a row is needed), limit (more inputs, outputs or instructions than
/// a region takes, more programs or bytes than the table takes: 65536 and 64 MiB).
RegionId intern_region(const RegionProgram& program);
const RegionProgram& region_program(RegionId id);
const RegionCode& region_code(RegionId id);  ///< what a backend runs; any thread

// Found by the printer and the parser of attributes (ir/op_impl.h).
std::string print_value(RegionId v);
/// False for a text of another form. Errors: format (why intern_region() refuses the program), limit.
bool parse_value(std::string_view text, RegionId& v);

/// The results of a program. Inputs: f32, f16, bf16 or boolean, of shapes that broadcast to one shape [..., n], columns
/// with last dim 1. Results: of that shape, or [..., 1] or [...] for those that a reduction makes. Each op's result is
/// rounded to its dtype, so that a region gives what its ops give.
struct Region {
  RegionId program;
  static constexpr std::string_view name = "region";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) { return std::tuple{field("program", &Region::program)}; }
  bool operator==(const Region&) const = default;
  void infer(InferContext&) const;
  void decompose(Body&) const;
  static std::vector<Sample> samples();
};

/// The dtype of an instruction's result, from those of the values before it.
DType region_dtype(const RegionInstr& instr, const std::vector<DType>& values);
/// A tile program and the instructions that its `code` is to point to.
struct TileProgram {
  std::vector<TileInstr> instructions;
  RegionCode code;
};
/// Makes the tile program of a checked region. Error(limit) when it is too long.
TileProgram make_region_code(const RegionProgram& program);

using RegionOps = OpList<Region>;

}  // namespace rlx
