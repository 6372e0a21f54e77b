// Programs and plans as bytes, and back: how artefacts hold them (compiler.md, section 9). A reader needs no compiler.
#pragma once

#include <span>
#include <string>

#include "base/byte_stream.h"
#include "device/backend.h"
#include "device/program.h"

namespace rlx {

/// Version of the bytes below; part of an artefact's header.
inline constexpr std::uint32_t kProgramFormat = 2;

/// Whether a program has a form in bytes: those with control flow are compiled at each start.
bool can_write(const Program& program);

/// Ops by name with their attributes as text, kernels by the name of their row, sizes as text.
void write_program(ByteWriter& out, const Program& program);
/// Trusts nothing: ops and kernel rows must exist here, every index and enum lies in its range, and check_program
/// (program_check.h) holds. Error(format) with the offset.
Program read_program(ByteCursor& in, const Backend& backend);

/// Sizes, offsets and barriers; bytes and scratch follow from the program.
void write_plan(ByteWriter& out, const Plan& plan);
/// Errors (format): as check_plan.
Plan read_plan(ByteCursor& in, const Program& program);

/// One entry of the weight store; the digest of these bytes names it in weights files.
void write_weight_entry(ByteWriter& out, const WeightEntry& entry);
WeightEntry read_weight_entry(ByteCursor& in);

/// A shape whose text is canonical and small: sizes from a file may not cost much to parse. Error(format).
Shape read_shape(ByteCursor& in, std::string_view field);

}  // namespace rlx
