// Generation on tiny models: ends, limits, faults, and where sampling options come from.
#include "runtime/generate.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace rlx {
namespace {

Decoder small_decoder(std::int64_t context = 0) {
  DecoderOptions o;
  o.threads = 1;
  o.context = context;
  o.compile.precision.activations = Activations::f32;
  return Decoder(load_model(std::filesystem::path(RLX_TEST_DIR) / "goldens/models/llama"), o);
}

Sampler greedy() {
  SamplerOptions o;
  o.temperature = 0;
  return Sampler(o);
}

GenerateResult run(Decoder& d, const std::vector<std::int32_t>& prompt, const GenerateOptions& o) {
  Sampler s = greedy();
  return generate(d, prompt, 0, s, o, [](std::int32_t) {});
}

TEST(Generate, EndsAtTheLimit) {
  Decoder d = small_decoder();
  GenerateOptions o;
  o.max_tokens = 5;
  const GenerateResult r = run(d, {1, 2, 3}, o);
  EXPECT_EQ(r.ids.size(), 5u);
  EXPECT_EQ(r.reason, FinishReason::length);
  EXPECT_EQ(r.prompt_tokens, 3);
  EXPECT_EQ(r.decode_steps, 4);  // the last token is not stepped
}

TEST(Generate, AnEndTokenIsNoPartOfTheText) {
  Decoder d = small_decoder();
  GenerateOptions o;
  o.max_tokens = 4;
  const GenerateResult all = run(d, {1, 2, 3}, o);
  const std::int32_t ends[] = {all.ids[2]};
  o.ends = ends;
  d.truncate(0);
  const GenerateResult r = run(d, {1, 2, 3}, o);
  EXPECT_EQ(r.reason, FinishReason::stop);
  EXPECT_EQ(r.ids, std::vector<std::int32_t>(all.ids.begin(),
                                             std::find(all.ids.begin(), all.ids.end(), ends[0])));
}

TEST(Generate, ThePromptMustFitTheContext) {  // S10
  Decoder d = small_decoder(8);
  const std::vector<std::int32_t> fits(8, 3), longer(9, 3);
  const GenerateResult r = run(d, fits, {});
  EXPECT_EQ(r.ids.size(), 1u);
  EXPECT_EQ(r.reason, FinishReason::length);
  d.truncate(0);
  try {
    run(d, longer, {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::limit);
    EXPECT_NE(std::string(e.what()).find("9"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("8"), std::string::npos);
  }
}

TEST(Generate, TheContextEndsTheText) {
  Decoder d = small_decoder(8);
  const GenerateResult r = run(d, {1, 2, 3}, {});
  EXPECT_EQ(r.ids.size(), 6u);  // five that are stepped, and one that is not
  EXPECT_EQ(d.past(), 8);
}

TEST(Generate, CancelStopsBetweenSteps) {
  Decoder d = small_decoder();
  int asked = 0;
  GenerateOptions o;
  o.cancelled = [&] { return ++asked > 3; };
  const GenerateResult r = run(d, {1, 2, 3}, o);
  EXPECT_EQ(r.reason, FinishReason::cancelled);
  EXPECT_EQ(r.ids.size(), 3u);
}

// N02: an infinite weight makes logits that are not finite; the text ends with an error, at once.
TEST(Generate, LogitsThatAreNotFiniteAreAnError) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / fmt::format("rlx-infinite-{}", getpid());
  fs::copy(fs::path(RLX_TEST_DIR) / "goldens/models/llama", folder);
  fs::permissions(folder / "model.safetensors", fs::perms::owner_write, fs::perm_options::add);
  std::fstream file(folder / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2, std::ios::end);
  file.write("\x00\x7c", 2);  // infinity in f16
  file.close();
  DecoderOptions o;
  o.threads = 1;
  Decoder d(load_model(folder), o);
  const GenerateResult r = run(d, {1, 2, 3}, {});
  EXPECT_EQ(r.reason, FinishReason::error);
  EXPECT_EQ(name(r.reason), "error");
  EXPECT_FALSE(r.error.empty());
  EXPECT_TRUE(r.ids.empty());
  fs::remove_all(folder);
}

TEST(Generate, AnEmptyPromptIsAnError) {
  Decoder d = small_decoder();
  EXPECT_THROW(run(d, {}, {}), Error);
}

TEST(Sampling, AWishWinsOverTheModelOverTheDefault) {
  ModelHints hints;
  hints.temperature = 0.6;
  hints.top_k = 20;
  SamplingWishes wishes;
  wishes.top_k = 7;
  std::string origin;
  const SamplerOptions o = resolve_sampling(wishes, hints, &origin);
  EXPECT_FLOAT_EQ(o.temperature, 0.6f);
  EXPECT_EQ(o.top_k, 7);
  EXPECT_FLOAT_EQ(o.top_p, 0.95f);
  EXPECT_NE(origin.find("temperature 0.6 (model)"), std::string::npos) << origin;
  EXPECT_NE(origin.find("top-k 7 (flag)"), std::string::npos) << origin;
  EXPECT_NE(origin.find("top-p 0.95 (default)"), std::string::npos) << origin;
}

TEST(Sampling, AGreedyModelIsGreedyUnlessAskedOtherwise) {
  ModelHints hints;
  hints.do_sample = false;
  EXPECT_EQ(resolve_sampling({}, hints).temperature, 0.0f);
  SamplingWishes wishes;
  wishes.temperature = 1.5;
  EXPECT_EQ(resolve_sampling(wishes, hints).temperature, 1.5f);
}

TEST(Sampling, OutOfRangeNamesTheFlag) {
  SamplingWishes wishes;
  wishes.top_p = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(resolve_sampling(wishes, {}), Error);
}

}  // namespace
}  // namespace rlx
