// One object that says what to specialise and how the result is identified (compiler.md,
// section 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/key_writer.h"
#include "ir/buckets.h"
#include "compiler/layer_composition.h"
#include "compiler/variant.h"
#include "ir/options.h"
#include "ir/profile.h"

namespace rlx {

/// When an executable is made. Eager: before the first run. Lazy: on first use. Aot: read from
/// disk, and written there after a miss.
enum class CompilationMode : std::uint8_t { Eager, Lazy, Aot };

std::string_view name(CompilationMode mode);  ///< "eager", "lazy", "aot"

/// What an executable is made of besides the component.
struct TemplateIdentity {
  Digest graph;                 ///< of the symbolic HIR, with names, types and layouts of weights
  std::vector<Symbol> symbols;  ///< that the template contains, in any order
  Digest weights;               ///< of the weight source; Digest{}: none, params are set by hand
  std::string device;           ///< "cpu", "cuda:0"
  std::string features;         ///< of the device: instruction-set level and the like
  Digest options;               ///< of the CompileOptions
  std::string build;            ///< build id of this library
  /// Rounds the bounds of the plan. No part of a key: two policies that give the same bounds give
  /// the same executable.
  BucketPolicy buckets;
};

/// Setters give a changed copy: `ModelComponent(variant).with_mode(CompilationMode::Aot)`.
class ModelComponent {
 public:
  /// Default dispatch, Lazy, the profile CompileProfile{}, no quantisation, no layer composition.
  explicit ModelComponent(ModelVariant variant);

  [[nodiscard]] ModelComponent with_variant(ModelVariant variant) const;
  [[nodiscard]] ModelComponent with_dispatch(KernelDispatchConfig dispatch) const;
  [[nodiscard]] ModelComponent with_mode(CompilationMode mode) const;
  [[nodiscard]] ModelComponent with_profile_key(Digest key) const;
  [[nodiscard]] ModelComponent with_profile(const CompileProfile& profile) const;  ///< its digest
  [[nodiscard]] ModelComponent with_quant(std::optional<QuantScheme> quant) const;
  [[nodiscard]] ModelComponent with_layer_composition_key(std::optional<Digest> key) const;
  [[nodiscard]] ModelComponent with_layers(const LayerComposition& layers) const;  ///< its digest

  const ModelVariant& variant() const { return variant_; }
  const KernelDispatchConfig& dispatch() const { return dispatch_; }
  CompilationMode mode() const { return mode_; }
  Digest profile_key() const { return profile_key_; }
  const std::optional<QuantScheme>& quant() const { return quant_; }
  const std::optional<Digest>& layer_composition_key() const { return layer_composition_key_; }
  DimBinding dim_binding() const { return variant_.dim_binding(); }

  /// Identity of the component: all its fields.
  Digest cache_key() const;
  void write_key(KeyWriter& key) const;

  /// What the caches look up by: the component without its mode, with executable_binding for its
  /// binding, and the template. Errors as executable_binding.
  Digest executable_key(const TemplateIdentity& of) const;
  void write_executable_key(KeyWriter& key, const TemplateIdentity& of) const;
  /// The binding reduced to the symbols of the template, each rounded to its bucket: the sizes that
  /// the plan is made for. Error(limit): a size above its last bucket.
  DimBinding executable_binding(const TemplateIdentity& of) const;

  /// "decode-cpu-<32 hexadecimal digits>": safe in file names, the digits made from the executable
  /// key without the binding.
  std::string aot_disk_base(const TemplateIdentity& of) const;
  /// "<base>__<32 hexadecimal digits of executable_binding>": the artefact of this variant.
  std::string aot_disk_name(const TemplateIdentity& of) const;

 private:
  void write_shared_fields(KeyWriter& key) const;  ///< all but variant and mode
  std::vector<SymbolSize> executable_sizes(const TemplateIdentity& of) const;
  void write_base_key(KeyWriter& key, const TemplateIdentity& of) const;

  ModelVariant variant_;
  KernelDispatchConfig dispatch_;
  CompilationMode mode_ = CompilationMode::Lazy;
  Digest profile_key_;
  std::optional<QuantScheme> quant_;
  std::optional<Digest> layer_composition_key_;
};

/// Equal for configurations whose lists differ in order and repetition only.
void write_key(KeyWriter& key, const KernelDispatchConfig& dispatch);
/// Digest of what changes an executable; verify_each_pass does not.
Digest digest(const CompileOptions& options);

}  // namespace rlx
