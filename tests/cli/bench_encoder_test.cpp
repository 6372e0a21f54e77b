// rlx bench of encoders: tests, keys, flags that are another kind's.
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

TEST(BenchEncoder, BatchesAndLengthsGiveARowEach) {
  const Outcome r = rlx({"bench", "-m", golden_model("bert"), "--batch", "1,3", "--seq", "8-16+8", "-r", "2", "-t", "1",
                         "-o", "json", "--profile"});
  ASSERT_EQ(r.code, 0) << r.err;
  const json rows = json::parse(r.out);
  ASSERT_EQ(rows.size(), 4u);
  const std::pair<int, int> sizes[] = {{1, 8}, {1, 16}, {3, 8}, {3, 16}};
  for (std::size_t i = 0; i < 4; ++i) {
    const json& j = rows[i];
    EXPECT_EQ(j["n_batch_sequences"], sizes[i].first);
    EXPECT_EQ(j["n_seq"], sizes[i].second);
    EXPECT_EQ(j["samples_ns"].size(), 2u);
    const double ns = j["avg_ns"], ts = j["avg_ts"];
    EXPECT_NEAR(ts, sizes[i].first * sizes[i].second / (ns / 1e9), 0.5 * ts) << "tokens a second";
    EXPECT_GT(j["median_ms"], 0);
    EXPECT_GT(j["probe_gbps"], 0);
    EXPECT_GT(j["share"], 0);
    EXPECT_LT(j["share"], 10) << "shares of the probe, with whatever else runs here";
    EXPECT_FALSE(j["kernels"].empty());
    for (const char* key : {"type_k", "n_gen", "n_depth", "first_token_ms"}) EXPECT_FALSE(j.contains(key)) << key;
  }
  EXPECT_GT(rows[3]["ops"], 5 * rows[0]["ops"].get<double>());
}

TEST(BenchEncoder, ImagesAreCountedAsImages) {
  for (const char* name : {"vit", "resnet"}) {
    const Outcome r = rlx({"bench", "-m", golden_model(name), "--batch", "2", "-r", "1", "-t", "1", "-o", "jsonl"});
    ASSERT_EQ(r.code, 0) << r.err;
    const json j = json::parse(r.out);
    EXPECT_EQ(j["n_batch_sequences"], 2);
    EXPECT_EQ(j["model_type"], std::string(name) + " f32");
    EXPECT_GT(j["model_n_params"], 1000);
    EXPECT_EQ(j["image"][1], std::string(name) == "vit" ? 32 : 224);
    EXPECT_NEAR(j["avg_ts"].get<double>() * j["avg_ns"].get<double>() / 1e9, 2, 1e-3);
  }
}

TEST(BenchEncoder, RandomModelsAreOfTheTypeThatIsAskedFor) {
  double bytes[2] = {};
  for (int i = 0; i < 2; ++i) {
    const Outcome r = rlx({"bench", "--random", "bert-base", "--layers", "1", "--seq", "4", "-r", "1", "-o", "jsonl",
                           "--type", i == 0 ? "q8_0" : "bf16", "-t", "1"});
    ASSERT_EQ(r.code, 0) << r.err;
    const json j = json::parse(r.out);
    EXPECT_EQ(j["model_type"], i == 0 ? "random bert-base q8_0" : "random bert-base bf16");
    EXPECT_EQ(j["model_n_params"], 31515648);
    bytes[i] = j["model_size"];
  }
  EXPECT_NEAR(bytes[0] / bytes[1], 8.5 / 16, 0.02);
  const Outcome table = rlx({"bench", "--random", "vit-base", "--layers", "1", "-r", "1", "--batch", "2"});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("|              b2 |"), std::string::npos) << table.out;
  EXPECT_NE(table.err.find("t/s counts images"), std::string::npos) << table.err;
}

TEST(BenchEncoder, FlagsOfAnotherKindAreRefused) {
  struct Case {
    std::vector<std::string> flags;
    const char* model;
    const char* complaint;
  };
  const Case cases[] = {
      {{"-p", "8"}, "bert", "-p is for models that continue a text; bert is of the kind encoder"},
      {{"-n", "8"}, "vit", "-n is for models that continue a text; vit is of the kind vision: expected --batch"},
      {{"-d", "8"}, "bert", "-d is for"},
      {{"-ub", "8"}, "bert", "-ub is for"},
      {{"-pg", "8,8"}, "bert", "-pg is for"},
      {{"--sequences", "2"}, "bert", "--sequences is for"},
      {{"--kv", "f16"}, "bert", "--kv is for"},
      {{"--seq", "8"}, "vit", "--seq is for encoders of token sequences; vit is of the kind vision"},
      {{"--batch", "2"}, "llama", "--batch is for encoders; llama is of the kind decoder"},
      {{"--seq", "2"}, "llama", "--seq is for encoders"},
      {{"--batch", "0"}, "bert", "--batch: expected an integer 1 to"},
      {{"--batch", "1,1048576"}, "bert", "--batch 1048576 of --seq 128: expected at most 1048576 tokens together"},
      {{"--seq", "500"}, "bert", "500 tokens do not fit the model's 128 positions"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> words = {"bench", "-m", golden_model(c.model), "-r", "1"};
    words.insert(words.end(), c.flags.begin(), c.flags.end());
    const Outcome r = rlx(words);
    EXPECT_EQ(r.code, 2) << c.complaint << r.err;
    EXPECT_NE(r.err.find(c.complaint), std::string::npos) << r.err;
  }
  const Outcome layers = rlx({"bench", "--random", "resnet-50", "--layers", "3"});
  EXPECT_EQ(layers.code, 2) << layers.err;
}

}  // namespace
}  // namespace rlx::cli
