// Encoders with random weights in known shapes, as hub checkpoints in memory (bench_model.h is the way in).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "models/load.h"

namespace rlx {

/// "bert-base", "vit-base", "resnet-50".
std::vector<std::string_view> random_encoder_names();

/// `name`: one of them. `type`: of the matrices; kernels of convolutions and patches are f16 where it has blocks.
/// `layers` above 0 replaces the shape's own count. Errors: usage (a count for resnet-50, whose stages have counts of
/// their own); memory; unsupported (a block type that no row fits).
LoadedModel random_encoder(std::string_view name, DType type, std::int64_t layers);

}  // namespace rlx
