// A stream, joined, is the whole text; and each part is valid UTF-8.
#include "text/tokenizer/toy.h"
#include "text/tokenizer/utf8.h"

namespace rlx {
namespace {

using toy::Ids;

void expect_stream_equals_whole(const Tokenizer& t, const Ids& ids, bool skip) {
  StreamDecoder stream(t, skip);
  std::string joined;
  for (const std::int32_t id : ids) {
    const std::string part = stream.push(id);
    EXPECT_TRUE(tokenizer::is_utf8(part));
    joined += part;
  }
  const std::string rest = stream.finish();
  EXPECT_TRUE(tokenizer::is_utf8(rest));
  EXPECT_EQ(joined + rest, t.decode(ids, skip));
}

class StreamDecoding : public testing::TestWithParam<const char*> {};

TEST_P(StreamDecoding, of_random_ids_equals_whole_decoding) {
  const Tokenizer t = toy::golden_tokenizer(GetParam());
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    Ids ids(random() % 40);
    for (auto& id : ids)
      id = static_cast<std::int32_t>(random() % static_cast<unsigned>(t.vocab_size()));
    expect_stream_equals_whole(t, ids, round % 2 == 0);
  }
}

TEST_P(StreamDecoding, of_encoded_text_equals_whole_decoding) {
  const Tokenizer t = toy::golden_tokenizer(GetParam());
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    expect_stream_equals_whole(t, t.encode(toy::random_text(random, random() % 30)),
                               round % 2 == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, StreamDecoding,
                         testing::Values("gemma_spm_bpe", "llama2_spm_bpe", "llama3",
                                         "metaspace_mistral", "smollm_digits"),
                         [](const auto& p) { return std::string(p.param); });

TEST(StreamDecoder, holds_half_a_character_back) {
  const Tokenizer t = toy::golden_tokenizer("gpt2");
  const Ids ids = t.encode("\xF0\x9F\x8C\xB6");  // an emoji of several tokens
  ASSERT_GE(ids.size(), 2u);
  StreamDecoder stream(t);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) EXPECT_EQ(stream.push(ids[i]), "");
  EXPECT_EQ(stream.push(ids.back()), "\xF0\x9F\x8C\xB6");
  EXPECT_EQ(stream.finish(), "");
}

TEST(StreamDecoder, gives_a_cut_character_up_at_the_end) {
  const Tokenizer t = toy::golden_tokenizer("gpt2");
  const Ids ids = t.encode("\xF0\x9F\x8C\xB6");
  StreamDecoder stream(t);
  EXPECT_EQ(stream.push(ids[0]), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

TEST(StreamDecoder, S16_special_tokens_show_or_not_as_in_the_whole) {
  const Tokenizer t = toy::golden_tokenizer("llama3");
  const Ids hello = t.encode("Hello. World", {false, true});
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Ids ids = hello;
    for (int n = 0; n < 3; ++n)
      ids.insert(ids.begin() + static_cast<long>(random() % (ids.size() + 1)), n);
    expect_stream_equals_whole(t, ids, true);
    expect_stream_equals_whole(t, ids, false);
    EXPECT_EQ(t.decode(ids, true), "Hello. World");
  }
}

}  // namespace
}  // namespace rlx
