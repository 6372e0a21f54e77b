// Any bytes as text for fixed tokenizers of every kind: encoding never throws, and a stream of the
// ids is the whole text.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/utf8.h"

namespace {

struct Subject {
  rlx::Tokenizer tokenizer;
  bool lossless;  // decoding gives the text back
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> kSubjects = [] {
    const auto folder =
        std::filesystem::path(__FILE__).parent_path().parent_path() / "goldens" / "tokenizers";
    std::vector<Subject> list;
    for (const char* name :
         {"llama3", "smollm_digits", "deepseek", "gpt2", "gemma_spm_bpe", "llama2_spm_bpe"}) {
      // The SentencePiece kinds write U+2581 and a space alike, so their texts are compared by
      // stream only.
      const bool lossless = std::string_view(name).find("spm") == std::string_view::npos;
      list.push_back({rlx::Tokenizer::from_json_file(folder / name / "tokenizer.json"), lossless});
    }
    return list;
  }();
  return kSubjects;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t half = size / 2;
  for (const Subject& s : subjects()) {
    const auto ids = s.tokenizer.encode(text, {.add_special = false, .parse_special = false});
    const std::string whole = s.tokenizer.decode(ids);
    if (s.lossless) RLX_CHECK(whole == rlx::tokenizer::to_utf8(text), "encoding lost text");
    rlx::StreamDecoder stream(s.tokenizer, false);
    std::string joined;
    for (const auto id : ids) joined += stream.push(id);
    joined += stream.finish();
    RLX_CHECK(joined == whole, "a stream differs from the whole");

    // Template text before, the user's text after: what the user writes is never special.
    const rlx::Tokenizer::Piece pieces[] = {{text.substr(0, half), true},
                                            {text.substr(half), false}};
    s.tokenizer.encode_pieces(pieces, true);
    const rlx::Tokenizer::Piece user{text, false};
    for (const auto id : s.tokenizer.encode_pieces({&user, 1}, false)) {
      RLX_CHECK(!s.tokenizer.is_special(id) || s.tokenizer.find("<unk>") == id,
                "a user's text became a special token");
    }
  }
  return 0;
}
