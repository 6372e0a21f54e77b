// Time from an artefact on disk to the first op (compiler.md, section 9).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "device/device.h"

namespace rlx {

struct AotBench {
  double load_ms = 0;     ///< median: from nothing to the end of the first call of the first step
  std::int64_t bytes = 0;  ///< of the artefact's files
  std::string reason;      ///< why there is no figure; empty when there is one
};

/// Writes a decoder without content (runtime/synthetic_decoder.h) whose artefact has about `mib` MiB to a folder of its
/// own in `folder`, and starts from it `repetitions` times; its files are in the page cache. Needs room for the
/// artefact and, where files cannot be sparse, as much again; without it there is a reason instead of a figure.
/// Errors: io; memory; device.
AotBench bench_aot(const std::filesystem::path& folder, std::int64_t mib, std::int64_t repetitions, Device device);

}  // namespace rlx
