// Ids and texts of the reference libraries (tests/goldens: tokenizers, vocab).
#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/file.h"
#include "text/tokenizer/toy.h"

namespace rlx {
namespace {

using toy::Ids;

class TokenizerGolden : public testing::TestWithParam<const char*> {};

TEST_P(TokenizerGolden, ids_and_texts_equal_the_reference) {
  const Tokenizer t = toy::golden_tokenizer(GetParam());
  const auto cases = nlohmann::json::parse(read_file(toy::golden(GetParam()) / "cases.json"));
  ASSERT_GT(cases.size(), 50u);
  for (const auto& c : cases) {
    const auto text = c["text"].get<std::string>();
    const auto ids = c["ids"].get<Ids>();
    const auto plain = c["ids_plain"].get<Ids>();
    EXPECT_EQ(t.encode(text), ids) << text;
    EXPECT_EQ(t.encode(text, {.add_special = false, .parse_special = true}), plain) << text;
    EXPECT_EQ(t.decode(plain), c["decoded"].get<std::string>()) << text;
    EXPECT_EQ(t.decode(ids, true), c["decoded_skip"].get<std::string>()) << text;
  }
}

constexpr const char* kJsonNames[] = {
    "gemma_spm_bpe", "llama2_spm_bpe", "llama3", "metaspace_mistral",
    "qwen2",         "smollm_digits",  "gpt2",   "gpt2_prefix_space",
    "starcoder",     "deepseek",       "roberta",
    "bert_cased",    "bert_uncased"};
INSTANTIATE_TEST_SUITE_P(Json, TokenizerGolden, testing::ValuesIn(kJsonNames),
                         [](const auto& p) { return std::string(p.param); });

class VocabGolden : public testing::TestWithParam<const char*> {};

TEST_P(VocabGolden, ids_equal_the_public_vectors) {
  const auto base = std::filesystem::path(RLX_TEST_DIR) / "goldens" / "vocab" /
                    (std::string(GetParam()) + ".gguf");
  const Tokenizer t = Tokenizer::from_gguf(GgufFile(base));
  std::string input = read_file(base.string() + ".inp");
  std::istringstream output(read_file(base.string() + ".out"));
  const std::string separator = "\n__ggml_vocab_test__\n";
  std::size_t count = 0;
  for (std::size_t at = 0; at <= input.size(); ++count) {
    const std::size_t end = std::min(input.find(separator, at), input.size());
    const std::string text = input.substr(at, end - at);
    at = end + separator.size();
    std::string line;
    if (!std::getline(output, line)) break;
    std::istringstream numbers(line);
    const Ids expected{std::istream_iterator<std::int32_t>(numbers), {}};
    EXPECT_EQ(t.encode(text, {.add_special = false, .parse_special = false}), expected) << text;
  }
  EXPECT_GT(count, 40u);
}

INSTANTIATE_TEST_SUITE_P(Gguf, VocabGolden, testing::Values("llama-spm", "gpt-2", "bert-bge"),
                         [](const auto& p) {
                           std::string name = p.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace rlx
