// Tile programs: what a region becomes (kernels.md, 3.2). Plain data, included by the instruction-set units.
//
// A row of the region is its last axis. A program runs in phases: those instructions that need a whole row's reduction
// stand in a later phase than it. In each phase the column instructions run once for the row, then the others for each
// tile of the row in turn.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace rlx {

inline constexpr int kRegionInputs = 16, kRegionOutputs = 8, kRegionInstructions = 48;
inline constexpr int kTileFloats = 512;  ///< of a register: a dozen of them lie in L1
inline constexpr int kTileCode = 256;    ///< most instructions and values of a tile program
inline constexpr int kTilePhases = 32;

/// What an instruction computes from a, b, c (values) and p, q (numbers). `fn` chooses the function.
enum class TileOp : std::uint8_t {
  load,         ///< input `fn`
  add,          ///< a + b
  sub,          ///< a - b
  mul,          ///< a * b
  div,          ///< a / b
  pow,          ///< a to the power of b
  maximum,      ///< NaN when either is
  minimum,
  compare,      ///< fn: Relation; 1 or 0
  where,        ///< b where a is not 0, else c
  clamp,        ///< p .. q
  unary,        ///< fn: UnaryFunction
  activation,   ///< fn: Act
  scale,        ///< a * p
  softcap,      ///< p * tanh(a / p)
  round,        ///< fn: DType, f16 or bf16
  reduce,       ///< fn: Reduction; result is a column
  inverse_rms,  ///< 1 / sqrt(mean(a^2) + p), a column; bits of RmsNorm
  inverse_std,  ///< 1 / sqrt(mean((a - b)^2) + p), b and result columns
  scale_affine, ///< a * b * (c + p)
  mul_add,      ///< a * b + c, rounded twice
  act_mul,      ///< fn: Act; act(a) * b
  sub_exp,      ///< exp(a - b)
};

/// Values are numbered in order of their instructions.
struct TileInstr {
  TileOp op = TileOp::load;
  std::uint8_t fn = 0;
  bool column = false;  ///< the result is one number per row
  std::int16_t phase = 0;
  std::int16_t a = -1, b = -1, c = -1;
  std::int16_t slot = 0;   ///< of the result: tile register, row buffer or column
  bool whole_row = false;  ///< the result is kept for the row, since a later phase reads it
  float p = 0.0f, q = 0.0f;
};

/// A result of the region.
struct TileStore {
  std::int16_t value = 0;
  bool column = false;
  bool dropped = false;  ///< a column without the last axis
};

struct RegionCode {
  const TileInstr* code = nullptr;  ///< `instructions` of them
  TileStore stores[kRegionOutputs];
  bool column_input[kRegionInputs] = {};  ///< one value per row
  int instructions = 0, outputs = 0, inputs = 0, phases = 1;
  int tiles = 0, rows = 0, columns = 0;  ///< registers, row buffers and columns in use
  bool reduces = false;
};

}  // namespace rlx
