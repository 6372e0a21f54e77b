// The forms that other programs call (interfaces.md, section 4).
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

std::string tokenizer() {
  return RLX_TEST_DIR "/goldens/tokenizers/qwen2/tokenizer.json";
}

TEST(Commands, VersionAndHelp) {
  EXPECT_TRUE(rlx({"--version"}).out.starts_with("rlx "));
  const Outcome help = rlx({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* name : {"run", "chat", "embed", "bench", "tokenize", "detokenize", "render", "tensors",
                           "dequantize", "inspect", "opt", "verify", "doctor"}) {
    EXPECT_NE(help.out.find(std::string("  ") + name), std::string::npos) << name;
    const Outcome one = rlx({name, "--help"});
    EXPECT_EQ(one.code, 0) << name;
    EXPECT_NE(one.out.find("Examples:"), std::string::npos) << name;
  }
  EXPECT_EQ(rlx({"eval", "ppl", "--help"}).code, 0);
  EXPECT_NE(rlx({"eval", "--help"}).out.find("rlx eval kld"), std::string::npos);
}

TEST(Commands, TokenizeAndBackByLines) {
  const json texts = {"Hello world", "", "caf\u00e9 \u6e29\u5ea6", "a\nb"};
  std::string in;
  for (const json& t : texts) in += t.dump() + "\n";
  const Outcome ids = rlx({"tokenize", "--tokenizer", tokenizer(), "--lines"}, in);
  ASSERT_EQ(ids.code, 0) << ids.err;
  const Outcome back = rlx({"detokenize", "--tokenizer", tokenizer(), "--lines"}, ids.out);
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.out, [&] {
    std::string same;
    for (const json& t : texts) same += t.dump() + "\n";
    return same;
  }());
}

TEST(Commands, LinesThatAreWrongNameTheirNumber) {
  const Outcome r =
      rlx({"tokenize", "--tokenizer", tokenizer(), "--lines"}, "\"ok\"\n{\"a\": 1}\n");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("line 2: expected a string, found object"), std::string::npos) << r.err;
  EXPECT_EQ(rlx({"detokenize", "--tokenizer", tokenizer(), "--lines"}, "[99999999]\n").code, 1);
  EXPECT_EQ(rlx({"detokenize", "--tokenizer", tokenizer(), "--lines"}, "[-1]\n").code, 1);
}

TEST(Commands, RenderGivesTextOrError) {
  const Scratch scratch;
  const std::string file =
      scratch.file("t.jinja",
                   "{% for m in messages %}{% if m.role == 'bad' %}{{ raise_exception('no ' + "
                   "m.role) }}{% endif %}"
                   "<{{ m.role }}>{{ m.content }}{% endfor %}{{ strftime_now('%Y-%m-%d') }}");
  const std::string in =
      R"({"messages": [{"role": "user", "content": "Hi"}], "tools": null, "arguments": {}})"
      "\n"
      R"({"messages": [{"role": "bad", "content": ""}], "tools": null, "arguments": {}})"
      "\n";
  const Outcome r =
      rlx({"render", "--template", file, "--now", "2026-03-09T10:11:12", "--lines"}, in);
  ASSERT_EQ(r.code, 0) << r.err;
  const std::size_t end = r.out.find('\n');
  EXPECT_EQ(json::parse(r.out.substr(0, end))["text"], "<user>Hi2026-03-09");
  EXPECT_NE(json::parse(r.out.substr(end + 1))["error"].get<std::string>().find("no bad"),
            std::string::npos);
}

TEST(Commands, DequantizeTakesAnyCase) {
  const Scratch scratch;
  // One q8_0 block: scale 1 (f16 0x3c00), values 0 .. 31.
  std::string block("\x00\x3c", 2);
  for (char c = 0; c < 32; ++c) block += c;
  const std::string in = scratch.file("b", block), out = (scratch / "o").string();
  ASSERT_EQ(rlx({"dequantize", "--type", "Q8_0", "--in", in, "--out", out}).code, 0);
  const std::string bytes = content(out);
  ASSERT_EQ(bytes.size(), 128u);
  float last = 0;
  std::memcpy(&last, bytes.data() + 124, 4);
  EXPECT_EQ(last, 31.0f);
}

TEST(Commands, TensorsAndDump) {
  const Scratch scratch;
  const json j = json::parse(rlx({"tensors", golden_model("llama"), "--json"}).out);
  ASSERT_FALSE(j["tensors"].empty());
  const std::string name = j["tensors"][0]["name"], out = (scratch / "t.f32").string();
  ASSERT_EQ(rlx({"tensors", golden_model("llama"), name, "--dump", out}).code, 0);
  std::size_t values = 1;
  for (const json& d : j["tensors"][0]["shape"]) values *= d.get<std::size_t>();
  EXPECT_EQ(fs::file_size(out), values * 4);
}

TEST(Commands, StagesAreReadByOpt) {
  for (const char* stage : {"hir", "mir"}) {
    const Outcome text = rlx({"inspect", golden_model("llama"), "--stage", stage});
    ASSERT_EQ(text.code, 0) << text.err;
    const Outcome again = rlx({"opt", "-"}, text.out);
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(again.out, text.out) << stage;
  }
  EXPECT_EQ(rlx({"inspect", golden_model("llama"), "--stage", "lir"}).code, 0);
  const json rows =
      json::parse(rlx({"inspect", golden_model("llama"), "--dispatch", "--json"}).out);
  for (const char* key : {"node", "op", "kind", "kernel", "reason"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
}

TEST(Commands, DoctorReports) {
  const json j = json::parse(rlx({"doctor", "--json"}).out);
  EXPECT_GE(j["threads"]["default"].get<int>(), 1);
  EXPECT_GT(j["memory"]["total"].get<double>(), 0);
}

TEST(Commands, BenchHasTheKeysOfLlamaBench) {
  const Outcome r = rlx({"bench", "-m", golden_model("llama"), "-p", "8", "-n", "2", "-pg", "4,2",
                         "-r", "1", "-t", "1", "-o", "json", "--profile"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json j = json::parse(r.out);
  ASSERT_EQ(j.size(), 3u);
  for (const char* key : {"model_type", "model_size", "model_n_params", "n_threads", "n_prompt",
                          "n_gen", "n_depth", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts",
                          "probe_gbps", "probe_gops", "share", "kernels"})
    EXPECT_TRUE(j[0].contains(key)) << key;
  EXPECT_EQ(j[0]["n_prompt"], 8);
  EXPECT_EQ(j[1]["n_gen"], 2);
  EXPECT_GT(j[1]["avg_ts"].get<double>(), 0);
}

}  // namespace
}  // namespace rlx::cli
