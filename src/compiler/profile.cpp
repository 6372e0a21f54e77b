#include "compiler/profile.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "compiler/pass.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace profiles {

CompileProfile llama_prefill() { return {}; }
CompileProfile llama_decode() { return llama_prefill(); }
CompileProfile qwen3_prefill() { return {}; }
CompileProfile qwen3_decode() { return qwen3_prefill(); }
CompileProfile gemma_prefill() { return {}; }
CompileProfile gemma_decode() { return gemma_prefill(); }

CompileProfile encoder() {
  CompileProfile profile;
  profile.passes["fuse_rope_append"] = false;
  return profile;
}

namespace {

struct Preset {
  std::string_view name;
  CompileProfile (*make)();
};

constexpr Preset kPresets[] = {
    {"llama_prefill", llama_prefill},
    {"llama_decode", llama_decode},
    {"qwen3_prefill", qwen3_prefill},
    {"qwen3_decode", qwen3_decode},
    {"gemma_prefill", gemma_prefill},
    {"gemma_decode", gemma_decode},
    {"encoder", encoder},
};

}  // namespace

std::span<const std::string> names() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> made;
    for (const Preset& p : kPresets) made.emplace_back(p.name);
    return made;
  }();
  return all;
}

CompileProfile named(std::string_view name) {
  for (const Preset& p : kPresets)
    if (p.name == name) return p.make();
  fail(ErrorCode::invalid_argument, "unknown compile profile \"{}\"{}", name, did_you_mean(name, names()));
}

}  // namespace profiles

std::string pass_switch_fault(std::string_view pass, bool on) {
  for (const Pass& p : pipeline_passes())
    if (p.name == pass)
      return p.required && !on
                 ? fmt::format("the pass \"{}\" is required and cannot be switched off", pass)
                 : "";
  return unknown_pass(pass);
}

namespace {

std::string encodable_formats() {
  std::string list;
  for (const DTypeInfo& t : all_dtypes())
    if (t.is_quantized && t.dtype != DType::xq8 && encoder(t.dtype) != nullptr)
      list += (list.empty() ? "" : ", ") + std::string(t.name);
  return list;
}

}  // namespace

std::string quant_fault(const QuantScheme& quant) {
  const DTypeInfo& format = info(quant.weights);
  // xq8 is the form of activations: no weight is stored in it.
  if (!format.is_quantized || quant.weights == DType::xq8)
    return fmt::format("expected a block format of weights, found {}", format.name);
  if (encoder(quant.weights) == nullptr)
    return fmt::format("weights cannot be quantised to {} here; there are {}", format.name, encodable_formats());
  if (quant.resolved_group() != format.block_elements)
    return fmt::format("expected a group of {}, the block of {}, found {}", format.block_elements,
                       format.name, quant.group);
  return "";
}

void validate(const CompileProfile& profile) {
  for (const auto& [pass, on] : profile.passes)
    if (const std::string fault = pass_switch_fault(pass, on); !fault.empty())
      fail(ErrorCode::invalid_argument, "compile profile: {}", fault);
  if (!profile.quant) return;
  if (const std::string fault = quant_fault(*profile.quant); !fault.empty())
    fail(ErrorCode::invalid_argument, "compile profile: quant: {}", fault);
}

void write_key(KeyWriter& key, const Precision& precision) {
  key.text("activations", name(precision.activations));
  // f32 activations mean an f32 cache unless another one is asked for.
  if (precision.kv)
    key.text("kv", name(*precision.kv));
  else if (precision.activations == Activations::f32)
    key.text("kv", name(DType::f32));
  else
    key.absent("kv");
}

void write_key(KeyWriter& key, const std::optional<QuantScheme>& quant) {
  if (quant)
    key.text("quant", name(quant->weights)).integer("group", quant->resolved_group());
  else
    key.absent("quant");
}

Digest digest(const CompileProfile& profile) {
  KeyWriter key("profile");
  key.boolean("fusion", profile.fusion);
  std::vector<std::string> off;
  if (profile.fusion)
    for (const auto& [pass, on] : profile.passes)
      if (!on) off.push_back(pass);
  key.set("off", off);
  write_key(key, profile.precision);
  write_key(key, profile.quant);
  key.list("backend", profile.backend.size());
  for (const auto& [setting, value] : profile.backend) {
    if (const auto* b = std::get_if<bool>(&value)) key.boolean(setting, *b);
    if (const auto* i = std::get_if<std::int64_t>(&value)) key.integer(setting, *i);
    if (const auto* r = std::get_if<double>(&value)) key.real(setting, *r);
    if (const auto* t = std::get_if<std::string>(&value)) key.text(setting, *t);
  }
  return key.finish();
}

CompileOptions apply(const CompileProfile& profile, CompileOptions options) {
  validate(profile);
  // A setting that does nothing would be worse than an error.
  if (!profile.backend.empty())
    fail(ErrorCode::unsupported, "compile profile: backend.{}: no backend has settings",
         profile.backend.begin()->first);
  if (!options.quant) options.quant = profile.quant;
  options.fusion = options.fusion && profile.fusion;
  auto& off = options.disabled_passes;
  for (const auto& [pass, on] : profile.passes)
    if (!on && std::find(off.begin(), off.end(), pass) == off.end()) off.push_back(pass);
  if (options.precision.activations == Activations::automatic)
    options.precision.activations = profile.precision.activations;
  if (!options.precision.kv) options.precision.kv = profile.precision.kv;
  return options;
}

}  // namespace rlx
