// The sections "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json.
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxSteps = 64;

/// What a step's type does with its fields.
template <typename Step>
using Readers =
    std::map<std::string, std::function<void(const Fields&, std::vector<Step>&)>, std::less<>>;

/// Reads a step, or a "Sequence" of steps under `list`; sequences may nest as deep as the document.
template <typename Step>
void read_steps(const json& value, const std::string& place, const char* list,
                const Readers<Step>& readers, std::vector<Step>& steps) {
  const Fields fields(value, place);
  const std::string type = fields.string("type");
  if (type == "Sequence") {
    std::size_t i = 0;
    for (const json& v : fields.array(list)) {
      read_steps(v, fmt::format("{}.{}[{}]", place, list, i++), list, readers, steps);
    }
    return;
  }
  const auto it = readers.find(type);
  if (it == readers.end()) fields.unsupported("the type " + quote(type));
  it->second(fields, steps);
  if (steps.size() > kMaxSteps) fields.wrong(fmt::format("more than {} steps", kMaxSteps));
}

TextPattern read_pattern(const Fields& fields) {
  const Fields pattern = fields.object("pattern");
  if (pattern.has("String")) return {pattern.string("String"), std::nullopt};
  if (!pattern.has("Regex")) pattern.wrong("expected a 'String' or a 'Regex'");
  const std::string text = pattern.string("Regex");
  try {
    return {"", Regex(text)};
  } catch (const Error& e) {
    throw Error(e.code(), fields.place() + ": " + e.what());
  }
}

std::string one_character(const Fields& fields, const char* key,
                          std::optional<std::string> otherwise = std::nullopt) {
  const std::string text = fields.string(key, std::move(otherwise));
  if (text.empty() || utf8_length(text[0]) != text.size()) {
    fields.wrong(fmt::format("{}: expected one character, found {}", key, quote(text)));
  }
  return text;
}

SplitBehavior read_behavior(const Fields& fields,
                            std::optional<std::string> otherwise = std::nullopt) {
  const std::string name = fields.string("behavior", std::move(otherwise));
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  fields.wrong("behavior: expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous, "
               "found " +
               quote(name));
}

/// The scheme of Metaspace; older files say add_prefix_space.
MetaspaceStep::Prepend read_prepend(const Fields& fields) {
  using Prepend = MetaspaceStep::Prepend;
  const bool prefix = fields.boolean("add_prefix_space", true);
  const std::string name = fields.string("prepend_scheme", prefix ? "always" : "never");
  if (name == "always") return Prepend::always;
  if (name == "never") return Prepend::never;
  if (name == "first") return Prepend::first;
  fields.wrong("prepend_scheme: " + quote(name) + " is none of always, never, first");
}

Readers<NormalizeStep> normalizer_readers() {
  const auto form = [](NormalForm f) {
    return [f](const Fields&, std::vector<NormalizeStep>& s) { s.emplace_back(NormalFormStep{f}); };
  };
  return {
      {"NFC", form(NormalForm::nfc)},
      {"NFD", form(NormalForm::nfd)},
      {"NFKC", form(NormalForm::nfkc)},
      {"NFKD", form(NormalForm::nfkd)},
      {"BertNormalizer",
       [](const Fields& f, auto& s) {
         const bool lower = f.boolean("lowercase", true);
         if (f.boolean("clean_text", true)) s.emplace_back(CleanStep{});
         if (f.boolean("handle_chinese_chars", true)) s.emplace_back(SpacedHanStep{});
         if (f.boolean("strip_accents", lower)) {
           s.emplace_back(NormalFormStep{NormalForm::nfd});
           s.emplace_back(StripAccentsStep{});
         }
         if (lower) s.emplace_back(LowercaseStep{});
       }},
      {"Lowercase", [](const Fields&, auto& s) { s.emplace_back(LowercaseStep{}); }},
      {"StripAccents", [](const Fields&, auto& s) { s.emplace_back(StripAccentsStep{}); }},
      {"ByteLevel", [](const Fields&, auto& s) { s.emplace_back(ByteCharsStep{}); }},
      {"Strip",
       [](const Fields& f, auto& s) {
         s.emplace_back(StripStep{f.boolean("strip_left"), f.boolean("strip_right")});
       }},
      {"Prepend",
       [](const Fields& f, auto& s) { s.emplace_back(PrependStep{f.string("prepend")}); }},
      {"Replace",
       [](const Fields& f, auto& s) {
         s.emplace_back(ReplaceStep{read_pattern(f), f.string("content")});
       }},
  };
}

Readers<PreStep> pre_tokenizer_readers() {
  return {
      {"ByteLevel",
       [](const Fields& f, auto& s) {
         if (f.boolean("add_prefix_space", true)) s.emplace_back(PrefixSpaceStep{});
         if (f.boolean("use_regex", true)) {
           s.emplace_back(SplitStep{{"", Regex(kGpt2Pattern)}, SplitBehavior::isolated, false});
         }
         s.emplace_back(ByteLevelStep{});
       }},
      {"Split",
       [](const Fields& f, auto& s) {
         s.emplace_back(SplitStep{read_pattern(f), read_behavior(f), f.boolean("invert", false)});
       }},
      {"Digits",
       [](const Fields& f, auto& s) {
         const bool each = f.boolean("individual_digits", false);
         s.emplace_back(
             ClassStep{is_numeric, each ? SplitBehavior::isolated : SplitBehavior::contiguous});
       }},
      {"Punctuation",
       [](const Fields& f, auto& s) {
         s.emplace_back(ClassStep{is_punctuation, read_behavior(f, "Isolated")});
       }},
      {"Whitespace",
       [](const Fields&, auto& s) {
         s.emplace_back(SplitStep{{"", Regex(R"(\w+|[^\w\s]+)")}, SplitBehavior::removed, true});
       }},
      {"WhitespaceSplit",
       [](const Fields&, auto& s) {
         s.emplace_back(ClassStep{is_whitespace, SplitBehavior::removed});
       }},
      {"BertPreTokenizer",
       [](const Fields&, auto& s) {
         s.emplace_back(ClassStep{is_whitespace, SplitBehavior::removed});
         s.emplace_back(ClassStep{is_punctuation, SplitBehavior::isolated});
       }},
      {"CharDelimiterSplit",
       [](const Fields& f, auto& s) {
         s.emplace_back(SplitStep{
             {one_character(f, "delimiter"), std::nullopt}, SplitBehavior::removed, false});
       }},
      {"Metaspace",
       [](const Fields& f, auto& s) {
         s.emplace_back(MetaspaceStep{one_character(f, "replacement", MetaspaceStep{}.mark),
                                      read_prepend(f), f.boolean("split", true)});
       }},
  };
}

Readers<DecodeStep> decoder_readers() {
  return {
      {"ByteLevel", [](const Fields&, auto& s) { s.emplace_back(ByteLevelDecode{}); }},
      {"ByteFallback", [](const Fields&, auto& s) { s.emplace_back(ByteFallbackDecode{}); }},
      {"Fuse", [](const Fields&, auto& s) { s.emplace_back(FuseDecode{}); }},
      {"Metaspace",
       [](const Fields& f, auto& s) {
         s.emplace_back(MetaspaceDecode{one_character(f, "replacement", MetaspaceStep{}.mark),
                                        read_prepend(f) == MetaspaceStep::Prepend::never});
       }},
      {"Replace",
       [](const Fields& f, auto& s) {
         s.emplace_back(ReplaceDecode{read_pattern(f), f.string("content")});
       }},
      {"Strip",
       [](const Fields& f, auto& s) {
         constexpr std::int64_t kMost = 1 << 20;
         s.emplace_back(StripDecode{one_character(f, "content"),
                                    static_cast<std::size_t>(f.integer("start", 0, kMost)),
                                    static_cast<std::size_t>(f.integer("stop", 0, kMost))});
       }},
      {"WordPiece",
       [](const Fields& f, auto& s) {
         s.emplace_back(WordPieceDecode{f.string("prefix", "##"), f.boolean("cleanup", true)});
       }},
      {"BPEDecoder",
       [](const Fields& f, auto& s) { s.emplace_back(SuffixDecode{f.string("suffix", "</w>")}); }},
  };
}

template <typename Step>
std::vector<Step> read_section(const TokenizerJson& file, const char* section, const char* list,
                               const Readers<Step>& readers) {
  std::vector<Step> steps;
  const auto it = file.root.find(section);
  if (it != file.root.end() && !it->is_null())
    read_steps(*it, file.origin + ": " + section, list, readers, steps);
  return steps;
}

}  // namespace

std::vector<NormalizeStep> read_normalizer(const TokenizerJson& file) {
  return read_section(file, "normalizer", "normalizers", normalizer_readers());
}

std::vector<PreStep> read_pre_tokenizer(const TokenizerJson& file) {
  return read_section(file, "pre_tokenizer", "pretokenizers", pre_tokenizer_readers());
}

std::vector<DecodeStep> read_decoder(const TokenizerJson& file) {
  return read_section(file, "decoder", "decoders", decoder_readers());
}

}  // namespace rlx::tokenizer
