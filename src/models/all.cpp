// The list of families, and how a checkpoint finds its own.
#include <algorithm>

#include "base/error.h"
#include "models/architecture.h"

namespace rlx {
namespace {

const Architecture* const kAll[] = {
    &kLlama,    &kMistral,  &kQwen2,   &kQwen3, &kGemma3,   // decoders with attention
    &kQwen2Moe, &kQwen3Moe, &kMixtral,                      // with experts
    &kMamba,    &kMamba2,                                   // recurrent
    &kBert,     &kVit, &kResnet,      &kT5,                           // other kinds
};

const Architecture* find(NameList Architecture::*names, std::string_view wanted) {
  for (const Architecture* a : kAll)
    if (std::find((a->*names).begin(), (a->*names).end(), wanted) != (a->*names).end()) return a;
  return nullptr;
}

[[noreturn]] void fail_unknown(const std::string& file, std::string_view key,
                               NameList Architecture::*names, std::string_view found) {
  std::string known;
  for (const Architecture* a : kAll)
    for (const std::string_view name : a->*names)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  fail(ErrorCode::unsupported, "{}: {}: expected one of {}, found {}", file, key, known, found);
}

}  // namespace

std::span<const Architecture* const> all_architectures() { return kAll; }

const Architecture& architecture_of_gguf(const GgufFile& file) {
  const std::optional<std::string_view> name = file.get_string("general.architecture");
  if (!name) fail_unknown(file.path(), "general.architecture", &Architecture::gguf, "none");
  if (const Architecture* a = find(&Architecture::gguf, *name)) return *a;
  fail_unknown(file.path(), "general.architecture", &Architecture::gguf,
               fmt::format("\"{}\"", *name));
}

const Architecture& architecture_of_hub(const HubConfig& hub) {
  const std::vector<std::string> classes =
      hub.texts("architectures").value_or(std::vector<std::string>{});
  for (const std::string& name : classes)
    if (const Architecture* a = find(&Architecture::classes, name)) return *a;
  if (!classes.empty())
    fail_unknown(hub.file(), "architectures", &Architecture::classes,
                 fmt::format("\"{}\"", classes[0]));
  const std::optional<std::string> type = hub.text("model_type");
  if (!type) fail_unknown(hub.file(), "model_type", &Architecture::model_types, "none");
  if (const Architecture* a = find(&Architecture::model_types, *type)) return *a;
  fail_unknown(hub.file(), "model_type", &Architecture::model_types, fmt::format("\"{}\"", *type));
}

}  // namespace rlx
