// Checks of programs and plans that come from a file: kernels validate nothing, so what they rely on is proved before
// anything runs. Written apart from the compiler that makes them.
#pragma once

#include "device/backend.h"
#include "device/program.h"

namespace rlx {

/// Every index in its range; every call's results are what its op infers from its operands and its kernel row accepts
/// them; each buffer is written by one call before it is read, and its live range covers all of its uses; weights and
/// states have sizes that this backend can make. Errors (format): the first thing that is wrong; shape, limit: what an
/// op says of its operands.
void check_program(const Program& program, const Backend& backend);

/// Fills the bytes of operands and the scratch of calls, which follow from the program and the plan's sizes, threads
/// and context. Errors (shape, limit): sizes that are negative, unbound, or above 2^40.
void derive_plan(const Program& program, Plan& plan);

/// A derived plan: offsets inside the arena, no two buffers alive at one call overlap, and barriers part the calls that
/// touch the same bytes or the shared area. Error(format).
void check_plan(const Program& program, const Plan& plan);

}  // namespace rlx
