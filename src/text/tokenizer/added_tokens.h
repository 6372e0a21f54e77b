// Added tokens: texts that are found before the model sees anything, the longest first where
// several begin at one place (https://huggingface.co/docs/tokenizers/api/added-tokens).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::tokenizer {

struct AddedToken {
  std::int32_t id = -1;
  std::string content;
  bool special = false;
  bool normalized = false;   ///< looked for in normalised text, not in the raw text
  bool single_word = false;  ///< only where no word character is beside it
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< and after it
};

/// A part of a text: an added token, or (id -1) the text between.
struct Section {
  std::size_t begin, end;
  std::int32_t id;
};

/// Finds a set of tokens in one pass: time is the text's length times the depth of the match at
/// each place.
class TokenMatcher {
 public:
  /// `text` is what stands for the token in the searched text; empty ones match nothing.
  void add(const AddedToken& token, std::string_view text);
  bool empty() const { return tokens_.empty(); }

  /// Says whether a token may be taken at a range of the text.
  using Accept = std::function<bool(const AddedToken&, std::size_t begin, std::size_t end)>;

  /// Appends the sections of `text`, in order. A token's range includes the white space that it
  /// takes.
  void split(std::string_view text, const Accept& accept, std::vector<Section>& sections) const;

 private:
  struct Node {
    std::int32_t child = -1, sibling = -1, token = -1;
    unsigned char byte = 0;
  };
  std::int32_t child_of(std::int32_t node, unsigned char byte) const;
  /// The longest accepted token that begins at `at`, as index into tokens_ with its length in
  /// bytes; -1: none.
  struct Found {
    std::int32_t token = -1;
    std::size_t length = 0;
  };
  Found longest_at(std::string_view text, std::size_t at, const Accept& accept) const;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<AddedToken> tokens_;
  std::int32_t roots_[256] = {};  ///< child of the root by first byte; 0: none
};

}  // namespace rlx::tokenizer
