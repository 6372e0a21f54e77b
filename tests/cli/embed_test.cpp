// rlx embed: arguments, files and lines to JSON arrays.
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "toy_encoder.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

std::vector<json> json_lines(const std::string& text) {
  std::vector<json> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(json::parse(text.substr(at, end - at)));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return lines;
}

TEST(EmbedCommand, LinesArgumentsAndFilesGiveTheSameArrays) {
  const test::ToyEncoder toy;
  const Scratch scratch;
  std::string input;
  for (int i = 0; i < 150; ++i) input += json(std::string(static_cast<std::size_t>(i % 40), 'q') + "!").dump() + "\n";
  // Native kernels: the common form of attention is one matrix over the batch, and its sums depend on the place in it.
  const std::vector<std::string> native = {"-u", "RLX_KERNEL_DISPATCH"};
  const Outcome many = rlx({"embed", toy.path(), "--lines", "-t", "1"}, input, native);
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(many.err, "");
  const std::vector<json> arrays = json_lines(many.out);
  ASSERT_EQ(arrays.size(), 150u);
  EXPECT_EQ(arrays[3].size(), 64u);
  EXPECT_NE(arrays[3], arrays[4]);
  EXPECT_EQ(arrays[3], arrays[43]);
  const std::vector<json> given = json_lines(rlx({"embed", toy.path(), "qqq!", "!", "-t", "1"}, "", native).out);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(given[0], arrays[3]);
  EXPECT_EQ(given[1], arrays[0]);
  const Outcome file = rlx({"embed", toy.path(), "-f", scratch.file("t", "qqq!"), "-t", "1"}, "", native);
  EXPECT_EQ(json_lines(file.out).at(0), arrays[3]);
  EXPECT_EQ(rlx({"embed", toy.path(), "--lines"}).out, "") << "no line, no answer";
}

TEST(EmbedCommand, FlagsReplaceWhatTheFilesSay) {
  const test::ToyEncoder toy;
  const auto one = [&](std::vector<std::string> flags) {
    std::vector<std::string> words = {"embed", toy.path(), "some text", "-t", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome r = rlx(words);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string mean = one({});
  EXPECT_EQ(one({"--pooling", "mean"}), mean);
  EXPECT_NE(one({"--pooling", "cls"}), mean);
  EXPECT_NE(one({"--pooling", "max"}), one({"--pooling", "last"}));
  double sum = 0;
  for (const json& v : json::parse(one({"--no-normalize"}))) sum += v.get<double>() * v.get<double>();
  EXPECT_GT(std::abs(sum - 1), 0.1);
  toy.pooling({{"pooling_mode_mean_tokens", false}, {"pooling_mode_cls_token", true}});
  EXPECT_EQ(one({}), one({"--pooling", "cls"}));
  EXPECT_EQ(one({"--device", "reference", "--activations", "f32"}).substr(0, 1), "[");
}

TEST(EmbedCommand, WrongCallsAndFilesAreErrors) {
  const test::ToyEncoder toy;
  struct Case {
    std::vector<std::string> words;
    std::string input;
    int code;
    const char* complaint;
  };
  const std::string model = toy.path();
  const Case cases[] = {
      {{"embed", model}, "", 2, "expected one of TEXT, --lines and -f FILE, found none"},
      {{"embed", model, "a", "--lines"}, "", 2, "found several"},
      {{"embed", model, "a", "--pooling", "median"}, "", 2, "expected mean, cls, max or last, found \"median\""},
      {{"embed", model, "--lines"}, "\"a\"\n5\n", 1, "line 2: expected a string, found number"},
      {{"embed", model, "--lines"}, "\"a\"\n\n", 1, "line 2: expected a JSON value, found an empty line"},
      {{"embed", golden_model("vit"), "a"}, "", 3, "expected an encoder of texts"},
      {{"embed", golden_model("llama"), "a"}, "", 3, "expected an encoder of texts"},
      {{"embed", golden_model("bert"), "a"}, "", 3, "expected tokenizer.json"},
      {{"embed", "/nowhere", "a"}, "", 3, "/nowhere"},
  };
  for (const Case& c : cases) {
    const Outcome r = rlx(c.words, c.input);
    EXPECT_EQ(r.code, c.code) << c.complaint << r.err;
    EXPECT_NE(r.err.find(c.complaint), std::string::npos) << r.err;
    EXPECT_EQ(json_lines(r.out).size(), c.input.empty() ? 0u : 1u) << "lines before the wrong one are answered";
  }
  toy.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": 1})");
  const Outcome r = rlx({"embed", model, "a"});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("1_Pooling/config.json: pooling_mode_max_tokens: expected true or false, found 1"),
            std::string::npos)
      << r.err;
}

TEST(EmbedCommand, AWriterThatWaitsIsAnswered) {
  const test::ToyEncoder toy;
  // The second question is asked only when the first one was answered.
  const std::string script =
      "mkfifo $2/in $2/out; \"$0\" embed $1 --lines -t 1 < $2/in > $2/out & exec 3> $2/in 4< $2/out; "
      "echo '\"a\"' >&3; read -r one <&4; echo '\"b\"' >&3; read -r two <&4; exec 3>&-; wait; "
      "printf '%s\\n%s\\n' \"$one\" \"$two\"";
  const Scratch scratch;
  const Outcome r = run_words({"/usr/bin/timeout", "60", "/bin/sh", "-c", script, program(), toy.path(),
                               (scratch / "").string()});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(json_lines(r.out).size(), 2u);
}

}  // namespace
}  // namespace rlx::cli
