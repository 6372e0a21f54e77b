// Any bytes as a tokenizer.json: they are refused with a proper message, or the tokenizer encodes,
// decodes and streams.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using rlx::Tokenizer;
  constexpr std::string_view kText =
      "Hello  w\xC3\xB6rld's <s>123</s>\n\t\xF0\x9F\x98\x80 \xE6\xB1\x89 e\xCC\x81 a b";
  try {
    const Tokenizer t = Tokenizer::from_json({reinterpret_cast<const char*>(data), size}, "fuzz");
    for (const bool flag : {false, true}) {
      const auto ids = t.encode(kText, {.add_special = flag, .parse_special = flag});
      rlx::StreamDecoder stream(t, flag);
      std::string joined;
      for (const auto id : ids) joined += stream.push(id);
      joined += stream.finish();
      RLX_CHECK(joined == t.decode(ids, flag), "a stream differs from the whole");
    }
    for (std::int32_t id = 0; id < t.vocab_size() && id < 64; ++id) {
      try {
        t.token_bytes(id);
      } catch (const rlx::Error&) {
        // A gap in the ids.
      }
    }
  } catch (const rlx::Error&) {
    // Refused, or a pattern that needs too many steps.
  }
  return 0;
}
