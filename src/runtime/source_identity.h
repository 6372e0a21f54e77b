// What tells one checkpoint from another without reading all of it, and with.
#pragma once

#include "base/hash.h"
#include "flow/built_model.h"
#include "flow/weight_source.h"

namespace rlx {

/// For each mapped file its size, modification time, inode and the digest of what stands before its tensors; for each
/// tensor its name, type, shape and three samples of 64 bytes. Tensors in memory count with all of their bytes. Errors
/// (io): a file that was cut.
Digest source_identity(const WeightSource& source);

/// The same with the params that a model reads, or of a model without a source: what keys of executables hold.
Digest weights_identity(const BuiltModel& model);

/// The same for keys that only this process sees: when more than 1 MiB of tensors lies in memory, they count by the
/// address of their source, which whoever keeps the key keeps alive, and none of their bytes is read.
Digest process_identity(const BuiltModel& model);

/// Names, types, shapes and every byte of every tensor, wherever it lies. Errors (io): a file that was cut.
Digest content_digest(const WeightSource& source);

}  // namespace rlx
