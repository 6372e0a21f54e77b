// The decoder session: one prompt in any chunks, batches and thread counts gives the same bits; a
// decode step allocates and compiles nothing; limits and misuse are errors.
#include "runtime/decoder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

#include "base/error.h"
#include "runtime/toy_model.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Counts every allocation of this program, to show that a decode step makes none.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored \
    "-Wmismatched-new-delete"  // g++ inlines one of the pair and then misses the other
#endif
void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n == 0 ? 1 : n)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace rlx {
namespace {

std::vector<std::int32_t> prompt(std::size_t n, std::uint32_t seed = 1) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < n; ++i)
    tokens.push_back(static_cast<std::int32_t>((seed = seed * 1664525u + 1013904223u) >> 8) % 320);
  return tokens;
}

std::vector<float> copy(std::span<const float> s) { return {s.begin(), s.end()}; }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Decoder make(const ToyModel& toy, int threads = 2, std::int64_t chunk = 512,
             std::int64_t sequences = 1) {
  DecoderOptions o;
  o.threads = threads;
  o.chunk = chunk;
  o.sequences = sequences;
  return Decoder(toy.load(), o);
}

class DecoderTypes : public testing::TestWithParam<DType> {};

TEST_P(DecoderTypes, ChunksStepsAndThreadsGiveTheSameBits) {
  const ToyModel toy(GetParam());
  const auto tokens = prompt(150);
  Decoder whole = make(toy, 1);
  const auto want = copy(whole.step(tokens, Decoder::Want::all));
  ASSERT_EQ(want.size(), tokens.size() * 320);
  for (const float v : want) ASSERT_TRUE(std::isfinite(v));
  Decoder chunked = make(toy, 3, 37);
  EXPECT_TRUE(same_bits(copy(chunked.step(tokens, Decoder::Want::all)), want))
      << "chunks of 37 on 3 threads";
  Decoder single = make(toy, 2);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = copy(single.step({&tokens[i], 1}));
    ASSERT_TRUE(same_bits(row, {want.begin() + static_cast<std::ptrdiff_t>(i * 320),
                                want.begin() + static_cast<std::ptrdiff_t>((i + 1) * 320)}))
        << "token " << i << " one by one on 2 threads";
  }
}

TEST_P(DecoderTypes, ASequenceAmongOthersGivesTheSameBits) {
  const ToyModel toy(GetParam());
  const auto a = prompt(70, 1), b = prompt(9, 2), c = prompt(130, 3);
  std::vector<std::vector<float>> alone;
  for (const auto* tokens : {&a, &b, &c}) {
    Decoder d = make(toy);
    alone.push_back(copy(d.step(*tokens)));
  }
  Decoder together = make(toy, 2, 64, 3);
  const Decoder::Part parts[] = {
      {2, c, Decoder::Want::last}, {0, a, Decoder::Want::last}, {1, b, Decoder::Want::last}};
  const auto got = copy(together.step(parts));
  ASSERT_EQ(got.size(), 3u * 320u);
  EXPECT_TRUE(same_bits({got.begin(), got.begin() + 320}, alone[2]));
  EXPECT_TRUE(same_bits({got.begin() + 320, got.begin() + 640}, alone[0]));
  EXPECT_TRUE(same_bits({got.begin() + 640, got.end()}, alone[1]));
}

constexpr DType kStorage[] = {DType::q4_0, DType::q4_1, DType::q5_0, DType::q8_0, DType::q4_K,
                              DType::q6_K, DType::f16,  DType::bf16, DType::f32};
INSTANTIATE_TEST_SUITE_P(Storage, DecoderTypes, testing::ValuesIn(kStorage),
                         [](const auto& i) { return std::string(name(i.param)); });

TEST(Decoder, ADecodeStepAllocatesAndCompilesNothing) {
  const ToyModel toy(DType::q4_1);
  Decoder d = make(toy);
  const auto tokens = prompt(40);
  d.step(tokens);
  d.step({tokens.data(), 1});
  const DecoderStats before = d.stats();
  const std::int64_t count = allocations.load();
  for (int i = 0; i < 100; ++i) d.step({tokens.data() + i % 40, 1});
  EXPECT_EQ(allocations.load(), count);
  EXPECT_EQ(d.stats().compiles, 1);
  EXPECT_EQ(d.stats().specializations, before.specializations);
  EXPECT_EQ(d.stats().steady_runs, before.steady_runs + 100);
  EXPECT_EQ(d.stats().packed_tensors, before.packed_tensors);
}

TEST(Decoder, TheHeadRunsForWantedRowsOnly) {
  const ToyModel toy(DType::q8_0);
  Decoder d = make(toy, 1, 64);
  d.step(prompt(200), Decoder::Want::last);
  EXPECT_EQ(d.stats().epilogue_rows, 1);
  EXPECT_EQ(d.stats().steady_runs, 4);
  EXPECT_EQ(d.stats().prologue_runs, 1);
}

TEST(Decoder, TruncateGoesBack) {
  const ToyModel toy(DType::q8_0);
  Decoder d = make(toy);
  const auto tokens = prompt(30);
  d.step({tokens.data(), 29});
  const auto want = copy(d.step({tokens.data() + 29, 1}));
  d.truncate(20);
  EXPECT_EQ(d.past(), 20);
  EXPECT_TRUE(same_bits(copy(d.step({tokens.data() + 20, 10})), want));
  EXPECT_THROW(d.truncate(31), Error);
}

TEST(Decoder, TheReferenceBackendAgrees) {
  const ToyModel toy(DType::q4_0, {.layers = 1, .context = 64});
  DecoderOptions o;
  o.compile.precision = {Activations::f32, DType::f32};
  o.threads = 2;
  Decoder fast(toy.load(), o);
  o.device = Device::reference();
  Decoder slow(toy.load(), o);
  const auto tokens = prompt(12);
  const auto a = copy(fast.step(tokens, Decoder::Want::all)),
             b = copy(slow.step(tokens, Decoder::Want::all));
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
  EXPECT_EQ(fast.dispatch().count(DispatchKind::reference), 0);
  EXPECT_EQ(slow.dispatch().count(DispatchKind::native), 0);
}

TEST(Decoder, CommonFormsAgree) {
  const ToyModel toy(DType::q8_0, {.layers = 2, .context = 64});
  DecoderOptions o;
  o.compile.precision = {Activations::f32, DType::f32};
  Decoder native(toy.load(), o);
  o.compile.dispatch.policy = DispatchPolicy::force_common;
  Decoder common(toy.load(), o);
  const auto tokens = prompt(12);
  const auto a = copy(native.step(tokens)), b = copy(common.step(tokens));
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
  EXPECT_GT(common.dispatch().count(DispatchKind::common), 0);
}

TEST(Decoder, EveryKvDtypeIsNearFloat) {
  const ToyModel toy(DType::q8_0);
  const auto tokens = prompt(100);
  const auto logits = [&](DType kv) {
    DecoderOptions o;
    o.compile.precision.kv = kv;
    Decoder d(toy.load(), o);
    return copy(d.step(tokens));
  };
  const auto want = logits(DType::f32);
  double power = 0;
  for (float v : want) power += double(v) * v;
  for (const DType kv : {DType::f16, DType::bf16, DType::q8_0}) {
    const auto got = logits(kv);
    double error = 0;
    for (std::size_t i = 0; i < got.size(); ++i) error += std::pow(double(got[i]) - want[i], 2);
    EXPECT_LT(error / power, 1e-3) << name(kv);
    EXPECT_FALSE(same_bits(got, want)) << name(kv);
  }
}

void expect_error(const std::function<void()>& f, ErrorCode code, const std::string& fragment) {
  try {
    f();
    FAIL() << "accepted: " << fragment;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(fragment), std::string::npos) << e.what();
  }
}

TEST(DecoderErrors, SayWhatWasExpectedAndFound) {
  const ToyModel toy(DType::q8_0, {.context = 100});
  Decoder d = make(toy);
  const auto tokens = prompt(101);
  expect_error([&] { d.step(tokens); }, ErrorCode::limit,
               "101 tokens do not fit the context: 0 are in it and it holds 100");
  const std::int32_t bad[] = {320};
  expect_error([&] { d.step(bad); }, ErrorCode::invalid_argument, "token 320: expected 0 to 319");
  expect_error([&] { d.step(std::span<const std::int32_t>{}); }, ErrorCode::invalid_argument,
               "without a token");
  const Decoder::Part part{4, tokens, Decoder::Want::last};
  expect_error(
      [&] {
        d.step({&part, 1});
      },
      ErrorCode::invalid_argument, "sequence 4: expected 0 to 0");
  expect_error([&] { d.past(-1); }, ErrorCode::invalid_argument, "sequence -1: expected 0 to 0");
  EXPECT_EQ(d.past(), 0) << "a refused step changes nothing";
  DecoderOptions o;
  o.device = Device::parse("cuda:0");
  expect_error([&] { Decoder x(toy.load(), o); }, ErrorCode::device, "cuda");
  o.device = Device::cpu();
  o.context = std::int64_t{1} << 40;
  expect_error([&] { Decoder x(toy.load(), o); }, ErrorCode::limit, "KV cache");
  o.context = std::int64_t{1} << 31;
  expect_error([&] { Decoder x(toy.load(), o); }, ErrorCode::memory, "not enough memory");
}

}  // namespace
}  // namespace rlx
