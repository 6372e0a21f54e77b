// A compiled model in one file, made on purpose: `rlx compile MODEL -o FILE`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "runtime/decoder.h"

namespace rlx {

struct ArtefactInfo {
  std::int64_t calls = 0;  ///< of the program
  std::int64_t packed_tensors = 0, packed_bytes = 0;
  std::int64_t file_bytes = 0;
};

/// Compiles a model, packs its weights, and writes program and packed weights into one file, whole or not at all. The
/// file names the model, whose tokenizer, template and unpacked tensors are read from there. `cancelled` is asked
/// between the parts of the work: a yes leaves nothing, and `file_bytes` is 0. Errors: as load_model and compile; io
/// (no permission, no room, something else than a file where the result is to be).
ArtefactInfo write_artefact(const std::filesystem::path& model, const std::filesystem::path& file,
                            const DecoderOptions& options, const std::function<bool()>& cancelled = {});

/// The model that a compiled file stands for: where it was, else beside the file; `path` itself when that is no
/// compiled file. Errors: io (the model is nowhere); format.
std::filesystem::path artefact_model(const std::filesystem::path& path);

/// artefact_model, with the compiled file as options.aot. Errors: as there.
std::filesystem::path resolve_artefact(const std::filesystem::path& path, DecoderOptions& options);

}  // namespace rlx
