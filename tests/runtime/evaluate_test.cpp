// Perplexity and distance on a tiny model.
#include "runtime/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace rlx {
namespace {

Decoder toy() {
  DecoderOptions o;
  o.threads = 1;
  o.context = 16;
  o.compile.precision.activations = Activations::f32;
  return Decoder(load_model(std::filesystem::path(RLX_TEST_DIR) / "goldens/models/llama"), o);
}

std::vector<std::int32_t> text(std::size_t n) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(static_cast<std::int32_t>(3 + i * 7 % 150));
  return ids;
}

TEST(LogSumExp, IsStableAndRefusesWhatIsNotFinite) {
  const float big[] = {1000.0f, 1000.0f}, bad[] = {0.0f, NAN}, none[] = {-HUGE_VALF, -HUGE_VALF};
  EXPECT_NEAR(log_sum_exp(big), 1000 + std::log(2.0), 1e-9);
  EXPECT_THROW(log_sum_exp(bad), Error);
  EXPECT_THROW(log_sum_exp(none), Error);
}

// The second half of each chunk, less its first prediction's left edge: chunk - 1 - chunk / 2
// tokens.
TEST(Perplexity, EqualsTheSumOverOneStep) {
  Decoder d = toy();
  const std::vector<std::int32_t> ids = text(20);
  EvalOptions o;
  o.chunk = 10;
  o.bos = 1;
  const Perplexity p = perplexity(d, ids, o);
  EXPECT_EQ(p.tokens, 2 * 4);
  double sum = 0;
  for (std::size_t c = 0; c < 2; ++c) {
    std::vector<std::int32_t> chunk(ids.begin() + static_cast<std::ptrdiff_t>(c * 10),
                                    ids.begin() + static_cast<std::ptrdiff_t>(c * 10 + 10));
    chunk[0] = 1;
    d.truncate(0);
    const std::span<const float> logits = d.step(chunk, Decoder::Want::all);
    const auto vocab = static_cast<std::size_t>(d.info().vocab);
    for (std::size_t i = 5; i < 9; ++i) {
      const std::span<const float> row = logits.subspan(i * vocab, vocab);
      sum += log_sum_exp(row) - row[static_cast<std::size_t>(chunk[i + 1])];
    }
  }
  EXPECT_NEAR(p.ppl, std::exp(sum / 8), 1e-6 * p.ppl);
  EXPECT_GT(p.stderr_, 0);
}

TEST(Perplexity, NeedsTwoChunks) {
  Decoder d = toy();
  EvalOptions o;
  o.chunk = 16;
  EXPECT_THROW(perplexity(d, text(31), o), Error);
}

TEST(Distance, IsNothingFromItself) {
  Decoder a = toy(), b = toy();
  EvalOptions o;
  o.chunk = 10;
  const Distance d = distance(a, b, text(20), o);
  EXPECT_EQ(d.tokens, 8);
  EXPECT_NEAR(d.mean_kl, 0, 1e-12);
  EXPECT_EQ(d.top1, 1);
}

}  // namespace
}  // namespace rlx
