// Wrong input of every kind: the exit code, and one line on stderr that names what was expected and
// found.
#include <algorithm>
#include <string>
#include <vector>

#include "cli/process.h"

namespace rlx::cli {
namespace {

struct Case {
  std::string line;  ///< words with spaces between; $M: a model folder, $D: a scratch folder
  int code;
  std::string says;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::vector<std::string> words_of(std::string line, const std::string& folder) {
  replace_all(line, "$M", golden_model("llama"));
  replace_all(line, "$D", folder);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// Files that are wrong in one way each.
void make_files(const Scratch& s) {
  s.file("empty.gguf", "");
  s.file("foreign.gguf", "PK\x03\x04 this is an archive");
  s.file("cut.gguf", std::string("GGUF\x03\0\0\0\1\0", 10));
  s.file("claims.gguf",
         std::string("GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0\0", 24));
  s.file("text.txt", "some words");
  s.file("odd.blocks", "12345");
  s.file("broken.json", "{\"model\": ");
  s.file("bad.mir", "graph \"x\" stage=mir\n  %0 = no_such_op() : f32[1]\n");
  fs::create_directory(s / "nothing");
  fs::create_directory(s / "arch");
  s.file("arch/config.json",
         "{\"architectures\": [\"NoSuchForCausalLM\"], \"model_type\": \"nosuch\"}");
  fs::copy(golden_model("llama") + "/model.safetensors", s / "arch/model.safetensors");
  // A tensor of another shape than the config says.
  fs::copy(golden_model("llama"), s / "shape");
  std::string config = content(s / "shape/config.json");
  replace_all(config, "\"intermediate_size\": 112", "\"intermediate_size\": 96");
  fs::remove(s / "shape/config.json");
  s.file("shape/config.json", config);
}

void check(const std::vector<Case>& cases, const std::vector<std::string>& settings = {}) {
  const Scratch scratch;
  make_files(scratch);
  for (const Case& c : cases) {
    const Outcome r = rlx(words_of(c.line, (scratch / "").string()), "", settings);
    const std::string complaint = last_line(r.err);
    EXPECT_EQ(r.code, c.code) << c.line << "\n" << r.err;
    EXPECT_TRUE(complaint.starts_with("rlx: ")) << c.line << "\n" << r.err;
    EXPECT_NE(complaint.find(c.says), std::string::npos) << c.line << "\n" << r.err;
    EXPECT_EQ(r.out, "") << c.line;
  }
}

TEST(Faults, Files) {
  check({
      {"inspect $D/none.gguf", 3, "found nothing"},
      {"inspect $D/empty.gguf", 3, "empty"},
      {"inspect $D/foreign.gguf", 3, "expected a GGUF file"},
      {"inspect $D/cut.gguf", 3, "cut.gguf"},
      {"inspect $D/claims.gguf", 3, "claims.gguf"},
      {"inspect $D/nothing", 3, "config.json"},
      {"inspect $D/arch", 3, "NoSuchForCausalLM"},
      {"inspect $D/shape", 3, "112"},
      {"run $D/none.gguf -p x", 3, "none.gguf"},
      {"run $M -p x", 3, "tokenizer.json"},
      {"chat $M -p x", 3, "tokenizer.json"},
      {"bench -m $D/foreign.gguf", 3, "expected a GGUF file"},
      {"tokenize --tokenizer $D/broken.json --text x", 3, "broken.json"},
      {"tokenize --model $D/nothing --text x", 3, "tokenizer.json"},
      {"tensors $D/text.txt", 3, "text.txt"},
      {"render --template $D/none.jinja --lines", 3, "none.jinja"},
      {"opt $D/bad.mir", 3, "no_such_op"},
      {"verify $D/nothing", 3, "cases.json"},
      {"verify $D/none", 3, "none"},
      {"verify --model $M --reference $D/none.safetensors", 3, "none.safetensors"},
      {"dequantize --type q9_9 --in $D/odd.blocks --out $D/o", 3, "q4_K"},
      {"dequantize --type Q4_k --in $D/odd.blocks --out $D/o", 3, "144"},
  });
}

TEST(Faults, Usage) {
  check({
      {"rnu $M", 2, "did you mean \"run\""},
      {"run $M --tmep 0 -p x", 2, "did you mean --temp"},
      {"run -p x", 2, "MODEL is missing"},
      {"run $M", 2, "expected one of -p TEXT and -f FILE"},
      {"run $M -p x -n -2", 2, "-1"},
      {"run $M -p x -n many", 2, "\"many\""},
      {"run $M -p x --temp -1", 2, "--temp: expected a number 0 to 100, found \"-1\""},
      {"run $M -p x --temp nan", 2, "--temp"},
      {"run $M -p x --top-p 1.5", 2, "--top-p: expected a number 0 to 1, found \"1.5\""},
      {"run $M -p x --threads 0", 2, "--threads: expected an integer 1 to 1024, found \"0\""},
      {"run $M -p x -c 0", 2, "--context"},
      {"run $M -p x --device tpu", 2, "cpu, reference"},
      {"run $M -p x --kv q3", 2, "f32, f16, bf16 or q8"},
      {"run $M -p x --activations int4", 2, "auto, int8, bf16 or f32"},
      {"chat", 2, "MODEL is missing"},
      {"bench", 2, "-m MODEL or --random"},
      {"bench -m $M -p 1-", 2, "-p"},
      {"bench -m $M -p 3-1", 2, "expected a range that rises, found \"3-1\""},
      {"bench -m $M -p 8,", 2, "expected values separated by commas, found \"8,\""},
      {"bench --random llama-1b --type nvfp4", 2, "iq4_xs"},
      {"bench -m $M -t 2 --affinity 999999", 2, "--affinity: expected processors that this process may use"},
      {"run $M -p x --affinity 0-", 2, "--affinity: expected none, cores or processors as 0-3,8"},
      {"bench -m $M -p 4 -n 0 -o xml", 2, "md, json, jsonl or csv"},
      {"bench --random huge", 2, "llama-1b"},
      {"tokenize --text x", 2, "--tokenizer"},
      {"tokenize --tokenizer t.json", 2, "--lines"},
      {"detokenize --tokenizer t.json", 2, "--lines"},
      {"render", 2, "--template"},
      {"render --template $D/text.txt --now yesterday", 2, "2026-03-09T10:11:12"},
      {"dequantize --type q4_0", 2, "--in"},
      {"tensors", 2, "FILE is missing"},
      {"tensors $M weight", 2, "--dump"},
      {"inspect $M --stage xir", 2, "hir, mir or lir"},
      {"inspect $M --stage hir --format pdf", 2, "--format"},
      {"inspect $M --stage hir --symbols rows", 2, "NAME=SIZE"},
      {"opt", 2, "FILE is missing"},
      {"verify", 2, "PATH"},
      {"verify $M --activations int8", 2, "float32"},
      {"verify $M --fast", 2, "float32"},
      {"verify $M --tolerance x", 2, "--tolerance"},
      {"eval", 2, "ppl, kld"},
      {"eval ppl -m $M", 2, "-f FILE"},
      {"eval pppl -m $M", 2, "ppl, kld"},
      {"bench -m $D/none.gguf --batch 0", 2, "--batch: expected"},  // before it looks for the file
      {"bench -m $D/none.gguf --seq 1-x", 2, "--seq"},
      {"doctor extra", 2, "unexpected argument \"extra\""},
  });
}

TEST(Faults, DevicesAndMemory) {
  check({
      {"verify $M --device cuda:0", 5, "CUDA"},
      {"bench --random llama-8b --type f32 --layers 1000", 4, "not enough memory"},
  });
}

TEST(Faults, Environment) {
  check({{"doctor", 2, "RLX_ISA: expected baseline, avx2, avx512, amx, found \"sse9\""}},
        {"RLX_ISA=sse9"});
  check({{"doctor", 2, "RLX_THREADS: expected an integer 1 to 1024"}}, {"RLX_THREADS=some"});
  check({{"doctor", 2, "RLX_KERNEL_DISPATCH: expected common, native"}},
        {"RLX_KERNEL_DISPATCH=fast"});
  check({{"doctor", 2, "RLX_PRINT: expected after-each"}}, {"RLX_PRINT=all"});
  // What tells of a wrong setting is there in spite of it.
  for (const char* line : {"--version", "--help", "run --help"}) {
    const Outcome r = rlx(words_of(line, ""), "", {"RLX_ISA=sse9"});
    EXPECT_EQ(r.code, 0) << line << ": " << r.err;
  }
}

// As for what nohup or a shell starts in the background: Ctrl+C is for others then.
TEST(Faults, AnInterruptThatIsIgnoredStaysIgnored) {
  const Scratch scratch;
  const Outcome r = run_words(
      {"/bin/sh", "-c",
       "trap '' INT; mkfifo \"$2\"; \"$0\" tokenize --tokenizer \"$1\" --lines < \"$2\" & exec 3> \"$2\"; sleep 0.3; "
       "kill -INT $!; echo '\"text\"' >&3; exec 3>&-; wait $!",
       program(), RLX_TEST_DIR "/goldens/tokenizers/bert_cased/tokenizer.json", (scratch / "lines").string()});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("[")) << r.out;
}

TEST(Faults, AddressSpaceRunsOut) {
  if (std::string(RLX_TEST_SANITIZE) != "")
    GTEST_SKIP() << "sanitizers reserve more addresses than the limit";
  const Outcome r = run_words(
      {"/bin/sh", "-c", "ulimit -v 300000; exec \"$0\" bench --random smol --type f32", program()});
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_TRUE(last_line(r.err).starts_with("rlx: not enough memory")) << r.err;
}

TEST(Faults, ClosedPipeEndsQuietly) {
  const Outcome r =
      run_words({"/bin/sh", "-c", "\"$0\" tensors \"$1\" | true; \"$0\" doctor | head -n 1",
                 program(), golden_model("llama")});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.err, "");
}

TEST(Faults, FullDiskIsAnError) {
  const Outcome r = run_words({"/bin/sh", "-c", "exec \"$0\" doctor > /dev/full", program()});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("stdout: cannot be written"), std::string::npos) << r.err;
}

TEST(Faults, AResultNeverReplacesWhatIsRead) {
  const Scratch scratch;
  const std::string blocks = scratch.file("blocks", std::string(18, 'x'));
  const Outcome same = rlx({"dequantize", "--type", "q4_0", "--in", blocks, "--out", blocks});
  EXPECT_EQ(same.code, 2);
  EXPECT_NE(same.err.find("is the file that is read"), std::string::npos) << same.err;
  EXPECT_EQ(content(blocks).size(), 18u);
  const Outcome out = rlx({"dequantize", "--type", "q4_0", "--in", blocks, "--out", "-"});
  EXPECT_EQ(out.code, 0);
  EXPECT_EQ(out.out.size(), 32u * 4);
  EXPECT_EQ(rlx({"dequantize", "--type", "q4_0", "--in", blocks, "--out", ""}).code, 2);
}

TEST(Faults, AFileOfTheModelIsNoResult) {
  const Scratch scratch;
  const std::string folder = scratch / "model", weights = folder + "/model.safetensors", missing = scratch / "none/x";
  fs::copy(golden_model("llama"), folder);
  const std::string text = scratch.file("text", "once upon a time"), before = content(weights);
  const auto refused = [](const std::vector<std::string>& words) {
    const Outcome r = rlx(words);
    EXPECT_EQ(r.code, 2) << words[0] << " " << words.back();
    EXPECT_NE(r.err.find("result"), std::string::npos) << r.err;
  };
  for (const std::string& output : {weights, folder, missing, text})
    for (const std::string command : {"tune", "trace"}) refused({command, folder, "-f", text, "-o", output});
  const std::string unread = folder + "/tokenizer.json", profile = scratch.file("p.toml", "fusion = true\n");
  for (const std::string& output : {weights, folder, missing, std::string("-"), unread, profile})
    refused({"compile", folder, "--profile", profile, "-o", output});
  EXPECT_FALSE(fs::exists(unread)) << "the model would read it";
  refused({"inspect", folder, "--profile", profile, "-o", profile});
  EXPECT_EQ(content(profile), "fusion = true\n");
  // A compiled file is read with its model.
  const std::string compiled = scratch / "model.rlx";
  ASSERT_EQ(rlx({"compile", folder, "-o", compiled}).code, 0);
  refused({"trace", compiled, "-p", "x", "-o", weights});
  EXPECT_EQ(content(weights), before);
  EXPECT_EQ(content(text), "once upon a time");
}

TEST(Faults, ACompiledFileIsNamedWhereTheModelIsNeeded) {
  const Scratch scratch;
  const std::string compiled = scratch / "model.rlx", ordinary = scratch.file("ordinary", "");
  const fs::path killed = scratch / ".rlx-compile-killed", foreign = scratch / ".rlx-compile-mine";
  for (const fs::path& f : {killed, foreign}) fs::create_directory(f);
  scratch.file(".rlx-compile-killed/.rlx-work", "");
  scratch.file(".rlx-compile-mine/precious", "");
  const Outcome made = rlx({"compile", golden_model("llama"), "-o", compiled});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_FALSE(fs::exists(killed)) << "what a killed process left";
  EXPECT_TRUE(fs::exists(foreign / "precious")) << "a folder of that name that it did not make";
  EXPECT_EQ(fs::status(compiled).permissions(), fs::status(ordinary).permissions() & ~fs::perms(022));
  for (const std::string command : {"inspect", "opt", "tensors"}) {
    const Outcome r = rlx({command, compiled});
    EXPECT_EQ(r.code, 2) << command;
    EXPECT_NE(r.err.find("is a compiled model"), std::string::npos) << r.err;
  }
}

TEST(Faults, AnUnknownProfileIsAWrongFlag) {
  const Outcome r = rlx({"run", golden_model("llama"), "-p", "x", "--profile", "fastest"});
  EXPECT_EQ(r.code, 2);
  EXPECT_NE(r.err.find("llama_decode"), std::string::npos) << r.err;
}

TEST(Faults, ALimitOnTheSizeOfFilesLeavesNothing) {
  const Scratch scratch;
  const std::string blocks = scratch.file("blocks", std::string(18, 'x')), out = (scratch / "out").string();
  const std::string script =
      "ulimit -f 0; exec \"$0\" dequantize --type q4_0 --in \"$1\" --out \"$2\" 2>/dev/null";
  const Outcome r = run_words({"/bin/sh", "-c", script, program(), blocks, out});
  EXPECT_EQ(r.code, 3);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "."), {}), 1);
}

TEST(Faults, EveryLineHasItsAnswer) {
  const Scratch scratch;
  const std::string file = scratch.file("t.jinja", "{{ messages|length }}");
  const std::string line = R"({"messages": [], "tools": null, "arguments": {}})";
  const Outcome r = rlx({"render", "--template", file, "--lines"}, line + "\n\n" + line + "\n");
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("line 2: expected a JSON value, found an empty line"), std::string::npos) << r.err;
}

TEST(Faults, SymbolsAreTheModels) {
  const auto lir = [](const char* symbols) {
    return rlx({"inspect", golden_model("llama"), "--stage", "lir", "--symbols", symbols});
  };
  EXPECT_EQ(lir("rows=2,out_rows=1").code, 0);
  EXPECT_NE(lir("rosw=2").err.find("no size \"rosw\": expected batch, out_rows, rows"), std::string::npos)
      << lir("rosw=2").err;
  EXPECT_NE(lir("rows=1,rows=2").err.find("rows is given twice"), std::string::npos);
}

TEST(Faults, VerifyTakesNoToleranceThatPassesAnything) {
  const Scratch scratch;
  fs::copy(golden_model("llama"), scratch / "m", fs::copy_options::recursive);
  std::string cases = content(scratch / "m/cases.json");
  const std::size_t at = cases.find("\"tolerance\":");
  ASSERT_NE(at, std::string::npos);
  cases.insert(cases.find_first_of("0123456789", at), "9");
  scratch.file("m/cases.json", cases);
  const Outcome r = rlx({"verify", (scratch / "m").string()});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("tolerance: expected 0 to 1"), std::string::npos) << r.err;
}

TEST(Faults, MessagesStayOneLine) {
  const Outcome r = rlx({"inspect", "/tmp/no\nsuch\x1b[31mfile"});
  EXPECT_EQ(r.code, 3);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_EQ(r.err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace rlx::cli
