// Memory of this process, and the line of speeds that run and chat print.
#pragma once

#include <string>

#include "runtime/generate.h"
#include "runtime/text_model.h"

namespace rlx::cli {

/// Resident memory in MiB (/proc/self/status, VmRSS); 0 where it cannot be read.
double resident_mib();
/// The most it ever was.
double peak_resident_mib();

/// "load 0.31 s | prompt 12 tokens, 240.1 tokens/s | answer 40 tokens, 61.2 tokens/s | memory 140
/// MiB".
std::string speed_text(const TextModel& model, const GenerateResult& result);

}  // namespace rlx::cli
