// Compile profiles: presets, TOML, the key, and their effect on CompileOptions (compiler.md,
// section 11).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/key_writer.h"
#include "ir/options.h"
#include "ir/profile.h"

namespace rlx {

/// Presets by family and phase. Prefill and decode of a family are equal on purpose: an output may
/// not depend on how a prompt is cut into steps (kernels.md, 2.8), and equal profiles let both
/// phases share one template.
namespace profiles {
CompileProfile llama_prefill();
CompileProfile llama_decode();
CompileProfile qwen3_prefill();
CompileProfile qwen3_decode();
CompileProfile gemma_prefill();
CompileProfile gemma_decode();
/// Without a KV cache there is nothing for fuse_rope_append to find.
CompileProfile encoder();

/// A preset by its function's name. Error(invalid_argument) for an unknown one, with the nearest.
CompileProfile named(std::string_view name);
std::span<const std::string> names();
}  // namespace profiles

/// Reads a profile. Keys, all optional:
///
///     fusion = true
///     passes.cse = false              # any pass of pipeline_passes() that is not required
///     precision.activations = "auto"  # int8, bf16, f32
///     precision.kv = "f16"            # f32, bf16, q8
///     quant.weights = "q4_0"          # any block format of weights; also: quant = "q4_0"
///     quant.group = 32                # the block of the format, which is the default
///     backend.cpu.tile = 64           # handed to the backend: bool, integer, float or string
///
/// `origin` (a path, "--profile") starts every message, followed by the line. Error(format): broken
/// TOML, an unknown key or pass (with the nearest known one), a value of another type.
CompileProfile parse_profile_toml(std::string_view text, std::string_view origin);

/// Checks a profile from code. Error(invalid_argument): an unknown pass (with the nearest known
/// one), a required pass that is switched off, a quantisation that the formats do not offer.
void validate(const CompileProfile& profile);

/// What is wrong with the switch of a pass or with a quantisation; empty when nothing is.
std::string pass_switch_fault(std::string_view pass, bool on);
std::string quant_fault(const QuantScheme& quant);

/// The profile key: equal exactly when the resolved contents are equal. Defaults that are spelled
/// out, and pass switches below `fusion = false`, do not count.
Digest digest(const CompileProfile& profile);
void write_key(KeyWriter& key, const Precision& precision);
void write_key(KeyWriter& key, const std::optional<QuantScheme>& quant);

/// The options with what the profile says: what it switches off is off; of precision and quantisation it fills what the
/// options leave open. Errors as validate, and unsupported: a `backend` setting, which no backend has.
CompileOptions apply(const CompileProfile& profile, CompileOptions options);

}  // namespace rlx
