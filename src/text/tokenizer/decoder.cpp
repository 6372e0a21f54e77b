#include "text/tokenizer/decoder.h"

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/utf8.h"

namespace rlx::tokenizer {

/// A stage gets tokens in parts of whole characters: text... end, text... end, finish. It passes on
/// the same.
class DecodeChain::Stage {
 public:
  virtual ~Stage() = default;
  virtual void text(std::string_view part) { next_->text(part); }
  virtual void end() { next_->end(); }
  virtual void finish() { next_->finish(); }
  void set_next(Stage* next) { next_ = next; }

 protected:
  void pass(std::string_view part) {
    if (!part.empty()) next_->text(part);
  }
  void pass_token(std::string_view token) {
    pass(token);
    next_->end();
  }
  Stage* next_ = nullptr;
};

namespace {

using Stage = DecodeChain::Stage;

class Output : public Stage {
 public:
  explicit Output(std::string*& out) : out_(out) {}
  void text(std::string_view part) override { *out_ += part; }
  void end() override {}
  void finish() override {}

 private:
  std::string*& out_;
};

/// A stage that needs the whole token.
class WholeToken : public Stage {
 public:
  void text(std::string_view part) override { token_ += part; }
  void end() override {
    token(token_);
    token_.clear();
  }

 protected:
  virtual void token(std::string_view text) = 0;

 private:
  std::string token_;
};

class ByteLevelStage : public WholeToken {
 public:
  void finish() override {
    std::string out;
    utf8_.finish(out);
    pass_token(out);
    next_->finish();
  }

 protected:
  void token(std::string_view token) override {
    std::string bytes;
    append_bytes_of(bytes, token);
    std::string out;
    utf8_.push(bytes, out);
    pass(out);
  }

 private:
  Utf8Stream utf8_;
};

class MetaspaceStage : public Stage {
 public:
  explicit MetaspaceStage(const MetaspaceDecode& step) : step_(step) {}
  void text(std::string_view part) override {
    std::string out;
    while (!part.empty()) {
      if (part.substr(0, step_.mark.size()) == step_.mark) {
        if (!first_ || step_.keep_first) out += ' ';
        part.remove_prefix(step_.mark.size());
      } else {
        const std::size_t length = utf8_length(part[0]);
        out += part.substr(0, length);
        part.remove_prefix(length);
      }
    }
    pass(out);
  }
  void end() override {
    first_ = false;
    next_->end();
  }

 private:
  const MetaspaceDecode& step_;
  bool first_ = true;
};

/// Literal replacement; of an unfinished token only what may become a match is held back.
class ReplaceStage : public Stage {
 public:
  explicit ReplaceStage(const ReplaceDecode& step) : step_(step) {}
  void text(std::string_view part) override {
    held_ += part;
    if (step_.pattern.regex) return;
    const std::string& literal = step_.pattern.literal;
    std::string out;
    std::size_t at = 0;
    for (std::size_t found;
         !literal.empty() && (found = held_.find(literal, at)) != std::string::npos;
         at = found + literal.size()) {
      out.append(held_, at, found - at);
      check_rewritten(out.size() + step_.content.size(), rewritten_limit(held_.size()));
      out += step_.content;
    }
    std::size_t keep = held_.size() - at;  // the longest suffix that begins the literal
    if (!literal.empty() && keep >= literal.size()) keep = literal.size() - 1;
    while (keep > 0 && literal.compare(0, keep, held_, held_.size() - keep, keep) != 0) --keep;
    out.append(held_, at, held_.size() - keep - at);
    held_.erase(0, held_.size() - keep);
    pass(out);
  }
  void end() override {
    pass_token(step_.pattern.regex ? replace(held_, step_.pattern, step_.content) : held_);
    held_.clear();
  }

 private:
  const ReplaceDecode& step_;
  std::string held_;
};

class ByteFallbackStage : public WholeToken {
 public:
  void finish() override {
    flush();
    next_->finish();
  }

 protected:
  void token(std::string_view token) override {
    if (const int byte = byte_of_token(token); byte >= 0) {
      bytes_ += static_cast<char>(byte);
      return;
    }
    flush();
    pass_token(token);
  }

 private:
  void flush() {
    if (bytes_.empty()) return;
    if (is_utf8(bytes_)) {
      pass_token(bytes_);
    } else {
      for (std::size_t i = 0; i < bytes_.size(); ++i) pass_token(kReplacement);
    }
    bytes_.clear();
  }
  std::string bytes_;
};

class FuseStage : public Stage {
 public:
  void end() override {}
  void finish() override {
    next_->end();
    next_->finish();
  }
};

class StripStage : public Stage {
 public:
  explicit StripStage(const StripDecode& step) : step_(step) {}
  void text(std::string_view part) override {
    std::string out;
    while (!part.empty()) {
      const std::string_view c = part.substr(0, utf8_length(part[0]));
      part.remove_prefix(c.size());
      const bool equal = c == step_.content;
      if (equal && at_start_ && cut_ < step_.start) {
        ++cut_;
        continue;
      }
      at_start_ = false;
      if (equal) {
        ++held_;  // may be at the end
        if (held_ <= step_.stop) continue;
        --held_;
      } else {
        release(out);
      }
      out += c;
    }
    pass(out);
  }
  void end() override {
    at_start_ = true;
    cut_ = held_ = 0;
    next_->end();
  }

 private:
  void release(std::string& out) {
    for (; held_ > 0; --held_) out += step_.content;
  }
  const StripDecode& step_;
  bool at_start_ = true;
  std::size_t cut_ = 0, held_ = 0;
};

class SuffixStage : public WholeToken {
 public:
  explicit SuffixStage(const SuffixDecode& step) : pattern_{step.suffix, std::nullopt} {}
  void finish() override {
    if (waits_) pass_token(replace(previous_, pattern_, ""));
    next_->finish();
  }

 protected:
  void token(std::string_view token) override {
    if (waits_) pass_token(replace(previous_, pattern_, " "));
    previous_ = token;
    waits_ = true;
  }

 private:
  TextPattern pattern_;
  std::string previous_;
  bool waits_ = false;
};

class WordPieceStage : public WholeToken {
 public:
  explicit WordPieceStage(const WordPieceDecode& step) : step_(step) {}

 protected:
  void token(std::string_view token) override {
    std::string text(token);
    if (!first_ && token.starts_with(step_.prefix))
      text.erase(0, step_.prefix.size());
    else if (!first_)
      text.insert(0, " ");
    first_ = false;
    if (step_.cleanup)
      for (const auto& [from, to] : kCleanups) text = replace(text, {std::string(from), std::nullopt}, to);
    pass_token(text);
  }

 private:
  // In the order of the reference, token by token.
  static constexpr std::pair<std::string_view, std::string_view> kCleanups[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},           {" ,", ","},   {" ' ", "'"},  {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  const WordPieceDecode& step_;
  bool first_ = true;
};

class JoinStage : public Stage {
 public:
  void text(std::string_view part) override {
    space();
    next_->text(part);
  }
  void end() override {
    space();
    begun_ = false;
    next_->end();
  }

 private:
  void space() {
    if (!begun_ && !first_) next_->text(" ");
    begun_ = true;
    first_ = false;
  }
  bool first_ = true, begun_ = false;
};

struct MakeStage {
  std::unique_ptr<Stage> operator()(const ByteLevelDecode&) const {
    return std::make_unique<ByteLevelStage>();
  }
  std::unique_ptr<Stage> operator()(const MetaspaceDecode& s) const {
    return std::make_unique<MetaspaceStage>(s);
  }
  std::unique_ptr<Stage> operator()(const ReplaceDecode& s) const {
    return std::make_unique<ReplaceStage>(s);
  }
  std::unique_ptr<Stage> operator()(const ByteFallbackDecode&) const {
    return std::make_unique<ByteFallbackStage>();
  }
  std::unique_ptr<Stage> operator()(const FuseDecode&) const {
    return std::make_unique<FuseStage>();
  }
  std::unique_ptr<Stage> operator()(const StripDecode& s) const {
    return std::make_unique<StripStage>(s);
  }
  std::unique_ptr<Stage> operator()(const SuffixDecode& s) const {
    return std::make_unique<SuffixStage>(s);
  }
  std::unique_ptr<Stage> operator()(const WordPieceDecode& s) const {
    return std::make_unique<WordPieceStage>(s);
  }
  std::unique_ptr<Stage> operator()(const JoinDecode&) const {
    return std::make_unique<JoinStage>();
  }
};

}  // namespace

DecodeChain::DecodeChain(const std::vector<DecodeStep>& steps) : steps_(&steps) { start(); }
DecodeChain::~DecodeChain() = default;

void DecodeChain::start() {
  stages_.clear();
  for (const DecodeStep& step : *steps_) stages_.push_back(std::visit(MakeStage{}, step));
  stages_.push_back(std::make_unique<Output>(out_));
  for (std::size_t i = 0; i + 1 < stages_.size(); ++i) stages_[i]->set_next(stages_[i + 1].get());
}

void DecodeChain::push(std::string_view token, std::string& out) {
  out_ = &out;
  if (!token.empty()) stages_.front()->text(token);
  stages_.front()->end();
}

void DecodeChain::finish(std::string& out) {
  out_ = &out;
  stages_.front()->finish();
  start();
}

}  // namespace rlx::tokenizer
