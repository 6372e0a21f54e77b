// A compiled model in one file, made on purpose: `rlx compile MODEL -o FILE`.
#pragma once

#include <cstdint>
#include <filesystem>

#include "runtime/decoder.h"

namespace rlx {

struct ArtefactInfo {
  std::int64_t calls = 0;  ///< of the program
  std::int64_t packed_tensors = 0, packed_bytes = 0;
  std::int64_t file_bytes = 0;
};

/// Compiles a model, packs its weights, and writes program and packed weights into one file, whole or not at all. The
/// file names the model, whose tokenizer, template and unpacked tensors are read from there. Errors: as load_model and
/// compile; io (no permission, no room).
ArtefactInfo write_artefact(const std::filesystem::path& model, const std::filesystem::path& file,
                            const DecoderOptions& options);

/// Where a model is loaded from: `path` itself, or the model that a compiled file names, which is looked for where it
/// was and then beside the file; the compiled file becomes options.aot. Errors: io (the model is nowhere); format.
std::filesystem::path resolve_artefact(const std::filesystem::path& path, DecoderOptions& options);

}  // namespace rlx
