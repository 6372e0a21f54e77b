#include "text/tokenizer/pre_table.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/byte_reader.h"

namespace rlx::tokenizer {
namespace {

// The patterns are those of the models' own tokenizer.json files. Characters past ASCII are written
// as \x{...}.
#define RLX_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define RLX_SPACE_TAIL R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define RLX_LETTERS R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define RLX_SIGNS R"(| ?[^\s\p{L}\p{N}]+)"
#define RLX_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define RLX_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define RLX_CJK R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"
#define RLX_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
#define RLX_QWEN2 RLX_CONTRACTION "|" RLX_LETTERS R"(|\p{N})" RLX_SIGNS R"([\r\n]*)" RLX_SPACE_TAIL
#define RLX_WORDS_BY_CASE(tail)                                                               \
  R"([^\r\n\p{L}\p{N}]?)" RLX_UPPER "*" RLX_LOWER "+" tail R"(|[^\r\n\p{L}\p{N}]?)" RLX_UPPER \
  "+" RLX_LOWER "*" tail
#define RLX_HAN_FREE(set) "[" set R"(&&[^\p{Han}]])"

constexpr const char* kGpt2[] = {RLX_GPT2};
constexpr const char* kDigits[] = {R"(\p{N})", RLX_GPT2};
constexpr const char* kLlama3[] = {RLX_CONTRACTION "|" RLX_LETTERS R"(|\p{N}{1,3})" RLX_SIGNS
                                                   R"([\r\n]*)" RLX_SPACE_TAIL};
constexpr const char* kQwen2[] = {RLX_QWEN2};
constexpr const char* kQwen35[] = {
    RLX_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" RLX_SPACE_TAIL};
constexpr const char* kLaguna[] = {R"([^\n]+|[\n]+)", RLX_QWEN2};
constexpr const char* kNoContraction[] = {RLX_LETTERS R"(|\p{N})" RLX_SIGNS
                                                      R"([\r\n]*)" RLX_SPACE_TAIL};
constexpr const char* kSeedCoder[] = {
    RLX_CONTRACTION "|" RLX_LETTERS R"(|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+)" RLX_SPACE_TAIL};
constexpr const char* kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
    R"(|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr const char* kExaoneMoe[] = {
    RLX_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N})" RLX_SIGNS
                    R"([\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr const char* kTekken[] = {RLX_WORDS_BY_CASE("") R"(|\p{N})" RLX_SIGNS
                                                         R"([\r\n/]*)" RLX_SPACE_TAIL};
constexpr const char* kGpt4o[] = {
    RLX_WORDS_BY_CASE(RLX_CONTRACTION "?") R"(|\p{N}{1,3})" RLX_SIGNS R"([\r\n/]*)" RLX_SPACE_TAIL};
constexpr const char* kKimi[] = {
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?)" RLX_HAN_FREE(R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})") "*"
    RLX_HAN_FREE(R"(\p{Ll}\p{Lm}\p{Lo}\p{M})") "+" RLX_CONTRACTION R"(?|[^\r\n\p{L}\p{N}]?)"
    RLX_HAN_FREE(R"(\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M})") "+" RLX_HAN_FREE(R"(\p{Ll}\p{Lm}\p{Lo}\p{M})") "*" RLX_CONTRACTION
    R"(?|\p{N}{1,3})" RLX_SIGNS R"([\r\n]*)" RLX_SPACE_TAIL};
constexpr const char* kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", RLX_GPT2, "[0-9][0-9][0-9]"};
constexpr const char* kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", RLX_GPT2, R"(\p{N}+)",
                                    "[0-9][0-9][0-9]"};
#define RLX_BLOOM R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{ff0c}\x{3001}\x{964}\x{6d4}\x{60c})]+)"
constexpr const char* kBloom[] = {RLX_BLOOM};
constexpr const char* kViking[] = {RLX_BLOOM, R"(\p{N})"};
constexpr const char* kDeepseekCoder[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", RLX_CJK,
                                          R"(\p{N})"};
constexpr const char* kDeepseek3[] = {
    R"(\p{N}{1,3})", R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*)" RLX_SPACE_TAIL};
// The letters are those with case, of the Unicode version of its day.
constexpr const char* kDeepseekLlm[] = {
    R"([\r\n])",
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"
    R"(\x{295}-\x{2af}\x{370}-\x{373})"
    R"(\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481})"
    R"(\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd})"
    R"(\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
    R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45})"
    R"(\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d})"
    R"(\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d})"
    R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184})"
    R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e})"
    R"(\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2})"
    R"(\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+)",
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    RLX_CJK,
    R"(\p{N}+)"};

struct Row {
  std::string_view name;
  PreRule rule;
};

constexpr PreRule plain(std::span<const char* const> patterns) {
  return {patterns, false, false, false};
}
constexpr PreRule nfc(std::span<const char* const> patterns) {
  return {patterns, false, false, true};
}
constexpr PreRule whole_words(std::span<const char* const> patterns, bool bos) {
  return {patterns, true, bos, false};
}

constexpr Row kRows[] = {
    {"default", plain(kDefault)},
    {"gpt-2", plain(kGpt2)},
    {"mpt", plain(kGpt2)},
    {"olmo", nfc(kGpt2)},
    {"jais", plain(kGpt2)},
    {"phi-2", plain(kGpt2)},
    {"trillion", plain(kGpt2)},
    {"granite-docling", plain(kGpt2)},
    {"gigachat", plain(kGpt2)},
    {"mellum", plain(kGpt2)},
    {"exaone4", plain(kGpt2)},
    {"a.x-4.0", plain(kGpt2)},
    {"modern-bert", nfc(kGpt2)},
    {"roberta-bpe", plain(kGpt2)},
    {"jina-v1-en", plain(kGpt2)},
    {"jina-v2-es", plain(kGpt2)},
    {"jina-v2-de", plain(kGpt2)},
    {"jina-v2-code", plain(kGpt2)},
    {"jina-es", plain(kGpt2)},
    {"jina-de", plain(kGpt2)},
    {"smollm", plain(kDigits)},
    {"starcoder", plain(kDigits)},
    {"refact", plain(kDigits)},
    {"command-r", nfc(kDigits)},
    {"codeshell", plain(kDigits)},
    {"exaone", plain(kDigits)},
    {"minerva-7b", plain(kDigits)},
    {"mellum2", plain(kDigits)},
    {"llama-bpe", whole_words(kLlama3, true)},
    {"llama3", whole_words(kLlama3, true)},
    {"llama-v3", whole_words(kLlama3, true)},
    {"falcon3", whole_words(kLlama3, true)},
    {"falcon-h1", whole_words(kLlama3, true)},
    {"pixtral", whole_words(kLlama3, true)},
    {"midm-2.0", whole_words(kLlama3, true)},
    {"lfm2", whole_words(kLlama3, true)},
    {"dbrx", plain(kLlama3)},
    {"smaug-bpe", plain(kLlama3)},
    {"chatglm-bpe", plain(kLlama3)},
    {"glm4", plain(kLlama3)},
    {"qwen2", nfc(kQwen2)},
    {"deepseek-r1-qwen", nfc(kQwen2)},
    {"megrez", nfc(kQwen2)},
    {"stablelm2", nfc(kQwen2)},
    {"hunyuan", plain(kQwen2)},
    {"solar-open", plain(kQwen2)},
    {"kormo", plain(kQwen2)},
    {"f2llmv2", nfc(kQwen2)},
    {"grok-2", plain(kQwen2)},
    {"qwen35", nfc(kQwen35)},
    {"laguna", plain(kLaguna)},
    {"ufakzeka", plain(kNoContraction)},
    {"seed-coder", plain(kSeedCoder)},
    {"bailingmoe", plain(kBailing)},
    {"bailingmoe2", plain(kBailing)},
    {"llada-moe", plain(kBailing)},
    {"exaone-moe", plain(kExaoneMoe)},
    {"tekken", whole_words(kTekken, true)},
    {"gpt-4o", plain(kGpt4o)},
    {"llama4", plain(kGpt4o)},
    {"minimax-m2", plain(kGpt4o)},
    {"kanana2", plain(kGpt4o)},
    {"kimi-k2", plain(kKimi)},
    {"falcon", plain(kFalcon)},
    {"bloom", plain(kBloom)},
    {"poro-chat", plain(kBloom)},
    {"gpt3-finnish", plain(kBloom)},
    {"viking", plain(kViking)},
    {"deepseek-llm", plain(kDeepseekLlm)},
    {"deepseek-coder", plain(kDeepseekCoder)},
    {"deepseek-v3", plain(kDeepseek3)},
    {"hunyuan-dense", plain(kDeepseek3)},
    {"joyai-llm", plain(kDeepseek3)},
};

}  // namespace

PreRule find_pre_rule(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.name == name; });
  if (row == std::end(kRows)) {
    constexpr std::size_t kListed = 8;
    std::string known;
    for (const Row& r : std::span(kRows).first(kListed)) known.append(r.name).append(", ");
    fail(ErrorCode::unsupported,
         "tokenizer.ggml.pre: the pre-tokenizer {} is not supported: expected {}or one of {} more", quote(name),
         known, std::size(kRows) - kListed);
  }
  return row->rule;
}

}  // namespace rlx::tokenizer
