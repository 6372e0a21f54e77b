// The public interface of RLX. Link rlx::rlx (find_package(rlx), or add_subdirectory).
#pragma once

#include "base/error.h"                  // IWYU pragma: export
#include "compiler/buckets.h"            // IWYU pragma: export
#include "compiler/component.h"          // IWYU pragma: export
#include "compiler/fusion_report.h"      // IWYU pragma: export
#include "compiler/layer_composition.h"  // IWYU pragma: export
#include "compiler/manifest.h"           // IWYU pragma: export
#include "compiler/pipeline.h"           // IWYU pragma: export
#include "compiler/profile.h"            // IWYU pragma: export
#include "compiler/variant.h"            // IWYU pragma: export
#include "flow/hir_module.h"             // IWYU pragma: export
#include "formats/gguf.h"                // IWYU pragma: export
#include "formats/safetensors.h"         // IWYU pragma: export
#include "ir/graph.h"                    // IWYU pragma: export
#include "ir/parse.h"                    // IWYU pragma: export
#include "ir/print.h"                    // IWYU pragma: export
#include "ir/profile.h"                  // IWYU pragma: export
#include "models/load.h"                 // IWYU pragma: export
#include "ops/elementwise.h"             // IWYU pragma: export
#include "ops/matmul.h"                  // IWYU pragma: export
#include "ops/norm.h"                    // IWYU pragma: export
#include "runtime/aot_cache.h"           // IWYU pragma: export
#include "runtime/backends.h"            // IWYU pragma: export
#include "runtime/compiled_graph.h"      // IWYU pragma: export
#include "runtime/decoder.h"             // IWYU pragma: export
#include "runtime/generate.h"            // IWYU pragma: export
#include "runtime/model_pipeline.h"      // IWYU pragma: export
#include "runtime/text_model.h"          // IWYU pragma: export
#include "tensor/tensor.h"               // IWYU pragma: export
#include "text/sampler.h"                // IWYU pragma: export
#include "text/tokenizer/tokenizer.h"    // IWYU pragma: export
