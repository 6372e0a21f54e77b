#include "compiler/component.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/profile.h"

namespace rlx {
namespace {

std::string_view policy_name(DispatchPolicy policy) {
  constexpr std::string_view names[] = {"prefer_native", "force_common", "force_native"};
  return names[static_cast<std::size_t>(policy)];
}

// A name's letters and digits; "-" for what a file name may not hold, "_" among it, since "__"
// parts the base from the binding.
std::string file_name_part(std::string_view text) {
  std::string part(text.substr(0, 32));
  for (char& c : part) {
    const bool good = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!good) c = '-';
  }
  return part;
}

}  // namespace

std::string_view name(CompilationMode mode) {
  constexpr std::string_view names[] = {"eager", "lazy", "aot"};
  return names[static_cast<std::size_t>(mode)];
}

void write_key(KeyWriter& key, const KernelDispatchConfig& dispatch) {
  key.text("policy", policy_name(dispatch.policy));
  key.set("force_common", dispatch.force_common).set("force_native", dispatch.force_native);
  key.boolean("fast", dispatch.fast);
}

Digest digest(const CompileOptions& options) {
  KeyWriter key("options");
  key.boolean("fusion", options.fusion);
  // Without fusion the switches change nothing.
  if (options.fusion) key.set("disabled_passes", options.disabled_passes);
  std::vector<std::string> custom;
  for (const CustomPass& p : options.custom_passes) custom.push_back(p.after + ":" + p.name);
  key.list("custom_passes", custom.size());
  for (const std::string& p : custom) key.text("pass", p);
  write_key(key, options.dispatch);
  write_key(key, options.precision);
  write_key(key, options.quant);
  key.integer("alignment", options.alignment).integer("budget", options.budget);
  return key.finish();
}

ModelComponent::ModelComponent(ModelVariant variant) : variant_(std::move(variant)) {
  static const Digest standard = digest(CompileProfile{});
  profile_key_ = standard;
}

ModelComponent ModelComponent::with_variant(ModelVariant variant) const {
  ModelComponent c = *this;
  c.variant_ = std::move(variant);
  return c;
}

ModelComponent ModelComponent::with_dispatch(KernelDispatchConfig dispatch) const {
  ModelComponent c = *this;
  c.dispatch_ = std::move(dispatch);
  return c;
}

ModelComponent ModelComponent::with_mode(CompilationMode mode) const {
  ModelComponent c = *this;
  c.mode_ = mode;
  return c;
}

ModelComponent ModelComponent::with_profile_key(Digest key) const {
  ModelComponent c = *this;
  c.profile_key_ = key;
  return c;
}

ModelComponent ModelComponent::with_profile(const CompileProfile& profile) const {
  return with_profile_key(digest(profile));
}

ModelComponent ModelComponent::with_quant(std::optional<QuantScheme> quant) const {
  ModelComponent c = *this;
  c.quant_ = quant;
  return c;
}

ModelComponent ModelComponent::with_layer_composition_key(std::optional<Digest> key) const {
  ModelComponent c = *this;
  c.layer_composition_key_ = key;
  return c;
}

ModelComponent ModelComponent::with_layers(const LayerComposition& layers) const {
  return with_layer_composition_key(layers.digest());
}

void ModelComponent::write_shared_fields(KeyWriter& key) const {
  rlx::write_key(key, dispatch_);
  key.digest("profile", profile_key_);
  rlx::write_key(key, quant_);
  if (layer_composition_key_)
    key.digest("layers", *layer_composition_key_);
  else
    key.absent("layers");
}

void ModelComponent::write_key(KeyWriter& key) const {
  variant_.write_key(key);
  key.text("mode", name(mode_));
  write_shared_fields(key);
}

Digest ModelComponent::cache_key() const {
  KeyWriter key("component");
  write_key(key);
  return key.finish();
}

void ModelComponent::write_base_key(KeyWriter& key, const TemplateIdentity& of) const {
  key.text("phase", name(variant_.phase()));
  write_shared_fields(key);
  key.digest("graph", of.graph);
  if (of.weights == Digest{})
    key.absent("weights");
  else
    key.digest("weights", of.weights);
  key.text("device", of.device).text("features", of.features);
  key.digest("options", of.options).text("build", of.build);
}

std::vector<SymbolSize> ModelComponent::executable_sizes(const TemplateIdentity& of) const {
  std::vector<SymbolSize> sizes = variant_.sizes();
  std::erase_if(sizes, [&](const SymbolSize& s) {
    return std::find(of.symbols.begin(), of.symbols.end(), s.first) == of.symbols.end();
  });
  for (auto& [symbol, size] : sizes) size = of.buckets.upper(symbol, size);
  return sizes;
}

DimBinding ModelComponent::executable_binding(const TemplateIdentity& of) const {
  DimBinding binding;
  for (const auto& [symbol, size] : executable_sizes(of)) binding.set(symbol, size);
  return binding;
}

void ModelComponent::write_executable_key(KeyWriter& key, const TemplateIdentity& of) const {
  write_base_key(key, of);
  rlx::write_key(key, "binding", executable_sizes(of));
}

Digest ModelComponent::executable_key(const TemplateIdentity& of) const {
  KeyWriter key("executable");
  write_executable_key(key, of);
  return key.finish();
}

std::string ModelComponent::aot_disk_base(const TemplateIdentity& of) const {
  KeyWriter key("artefact");
  write_base_key(key, of);
  return fmt::format("{}-{}-{}", name(variant_.phase()), file_name_part(of.device),
                     key.finish().hex());
}

std::string ModelComponent::aot_disk_name(const TemplateIdentity& of) const {
  return fmt::format("{}__{}", aot_disk_base(of), executable_binding(of).digest().hex());
}

}  // namespace rlx
