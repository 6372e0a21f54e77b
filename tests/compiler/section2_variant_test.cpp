// compiler.md, section 2: which size of the work, its key and its bucket.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "error_text.h"
#include "ir/buckets.h"
#include "compiler/variant.h"

namespace rlx {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string invalid_variant(const std::function<void()>& run) {
  return test::error_text(ErrorCode::invalid_argument, run);
}

TEST(section2_variant, BindsTheSizesOfItsPhase) {
  EXPECT_EQ(ModelVariant::prefill(2, 128).dim_binding(),
            (DimBinding{{sym::batch, 2}, {sym::seq, 128}, {sym::rows, 256}, {sym::out_rows, 2}}));
  EXPECT_EQ(ModelVariant::decode(1, 64, 1).dim_binding(), (DimBinding{{sym::batch, 1},
                                                                      {sym::past_seq, 64},
                                                                      {sym::seq, 1},
                                                                      {sym::rows, 1},
                                                                      {sym::out_rows, 1}}));
  EXPECT_EQ(ModelVariant::decode(3, 0, 2).text(),
            "decode(batch=3,out_rows=3,past_seq=0,rows=6,seq=2)");
  EXPECT_EQ(ModelVariant::encoder(2, 5).text(), "encoder(batch=2,out_rows=10,rows=10,seq=5)");
  EXPECT_EQ(ModelVariant::inference(2, 5).text(), "inference(batch=2,out_rows=10,rows=10,seq=5)");
}

TEST(section2_variant, VerifyWantsEveryRow) {
  EXPECT_EQ(ModelVariant::prefill(2, 8).verify().dim_binding().get(sym::out_rows), 16);
  // The order of the two calls does not matter.
  EXPECT_EQ(ModelVariant::prefill(2, 8).verify().with_rows(11).out_rows(), 11);
  EXPECT_EQ(ModelVariant::prefill(2, 8).with_rows(11).verify().out_rows(), 11);
}

TEST(section2_variant, RowsMayBeSetApart) {
  const ModelVariant mixed = ModelVariant::prefill(4, 32).with_rows(35);
  EXPECT_EQ(mixed.text(), "prefill(batch=4,out_rows=4,rows=35,seq=32)");
  EXPECT_EQ(ModelVariant::encoder(2, 8).with_rows(9).text(),
            "encoder(batch=2,out_rows=9,rows=9,seq=8)");
}

TEST(section2_variant, ExtrasOverrideTheirOwnSymbolOnly) {
  const ModelVariant v =
      ModelVariant::prefill(2, 8).with_extra(sym::seq, 5).with_extra(Symbol::named("image"), 9);
  EXPECT_EQ(v.text(), "prefill(batch=2,image=9,out_rows=2,rows=16,seq=5)");
  EXPECT_EQ(v.seq(), 8);
}

TEST(section2_variant, ImpossibleSizesAreErrorsWhenMade) {
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::make(ModelPhase::Decode, 1, 1); }),
            "decode variant: expected past_seq, the length of the cached prefix, found none");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::prefill(0, 8); }),
            "prefill variant: expected a batch of at least 1, found 0");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::encoder(-2, 8); }),
            "encoder variant: expected a batch of at least 1, found -2");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::inference(1, -8); }),
            "inference variant: expected a seq of at least 0, found -8");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::decode(1, -1, 1); }),
            "decode variant: expected a past_seq of at least 0, found -1");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::make(ModelPhase::Prefill, 1, 8, 4); }),
            "prefill variant: expected no past_seq, which belongs to decode, found 4");
  EXPECT_EQ(invalid_variant([] { (void)ModelVariant::prefill(3, kMost); }),
            "prefill variant: expected batch * seq to fit in 64 bits, found 3 * "
            "9223372036854775807");
  const ModelVariant v = ModelVariant::prefill(1, 8);
  EXPECT_EQ(invalid_variant([&] { (void)v.with_extra(Symbol::named("image"), -1); }),
            "prefill variant: expected a size of \"image\" of at least 0, found -1");
  EXPECT_EQ(invalid_variant([&] { (void)v.with_extra(sym::batch, 0); }),
            "prefill variant: expected a size of \"batch\" of at least 1, found 0");
  EXPECT_EQ(invalid_variant([&] { (void)v.with_rows(-1); }),
            "prefill variant: expected rows of at least 0, found -1");
}

TEST(section2_variant, KeyDoesNotSeeTheOrderOrRepetitionOfExtras) {
  std::mt19937 random(11);
  std::vector<std::pair<Symbol, std::int64_t>> extras;
  for (const char* name : {"image", "audio", "seq", "experts", "past_seq"})
    extras.emplace_back(Symbol::named(name), static_cast<std::int64_t>(extras.size() + 3));
  ModelVariant sorted = ModelVariant::prefill(1, 8);
  for (const auto& [symbol, size] : extras) sorted = sorted.with_extra(symbol, size);
  for (int i = 0; i < 100; ++i) {
    std::shuffle(extras.begin(), extras.end(), random);
    ModelVariant v = ModelVariant::prefill(1, 8);
    // A first value of each that the last one replaces.
    for (const auto& entry : extras)
      v = v.with_extra(entry.first, static_cast<std::int64_t>(random() % 50));
    for (const auto& [symbol, size] : extras) v = v.with_extra(symbol, size);
    EXPECT_EQ(v.cache_key(), sorted.cache_key());
    EXPECT_EQ(v, sorted);
  }
}

// Small numbers, so that equal meanings in different words are frequent.
ModelVariant random_variant(std::mt19937& random) {
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(random() % n); };
  const auto phase = static_cast<ModelPhase>(below(4));
  ModelVariant v =
      ModelVariant::make(phase, 1 + below(2), below(3),
                         phase == ModelPhase::Decode ? std::optional(below(2)) : std::nullopt);
  if (below(4) == 0) v = v.with_rows(below(3));
  if (below(4) == 0) v = v.verify();
  const Symbol symbols[] = {sym::seq, sym::rows, sym::out_rows, sym::past_seq,
                            Symbol::named("image")};
  for (std::int64_t n = below(3); n > 0; --n) v = v.with_extra(symbols[below(5)], below(3));
  return v;
}

TEST(section2_variant, KeysAreEqualExactlyWhenPhaseAndBindingAre) {
  std::mt19937 random(2);
  std::map<std::string, Digest> key_of;
  std::set<Digest> keys;
  int met_again = 0;
  for (int i = 0; i < 5000; ++i) {
    const ModelVariant v = random_variant(random);
    const auto [it, fresh] = key_of.try_emplace(v.text(), v.cache_key());
    EXPECT_EQ(it->second, v.cache_key()) << v.text();
    if (!fresh) ++met_again;
    keys.insert(v.cache_key());
  }
  EXPECT_EQ(keys.size(), key_of.size());
  EXPECT_GT(key_of.size(), 300u);
  EXPECT_GT(met_again, 1000);
}

TEST(section2_variant, EveryFieldIsInTheKey) {
  EXPECT_NE(ModelVariant::prefill(1, 8).cache_key(), ModelVariant::decode(1, 7, 1).cache_key());
  const ModelVariant base = ModelVariant::decode(1, 7, 2);
  const std::vector<ModelVariant> changed = {
      base,
      ModelVariant::decode(2, 7, 2),
      ModelVariant::decode(1, 8, 2),
      ModelVariant::decode(1, 7, 3),
      ModelVariant::prefill(1, 2).with_extra(sym::past_seq, 7),
      base.with_rows(3),
      base.verify(),
      base.with_extra(Symbol::named("image"), 7),
      base.with_extra(Symbol::named("image"), 8),
      base.with_extra(Symbol::named("imag"), 7),
  };
  std::set<Digest> keys;
  for (const ModelVariant& v : changed) keys.insert(v.cache_key());
  EXPECT_EQ(keys.size(), changed.size());
}

// These digests were made by another process: what changes them without a new kKeySchema breaks
// every artefact on disk.
TEST(section2_variant, KeysAreTheSameInEveryProcess) {
  EXPECT_EQ(ModelVariant::prefill(2, 128).cache_key().hex(), "0fea258f337e6cfb374fe2bb4b38120d");
  EXPECT_EQ(ModelVariant::decode(1, 64, 1).cache_key().hex(), "4ae23d666f454b867cf2142d73f0beba");
  // Ids of symbols depend on the order in which a process meets them; keys hold names.
  for (int i = 0; i < 7; ++i) Symbol::named(fmt::format("met_before_{}", i));
  EXPECT_EQ(ModelVariant::encoder(1, 4)
                .with_extra(Symbol::named("zz"), 1)
                .with_extra(Symbol::named("aa"), 2)
                .cache_key()
                .hex(),
            "b5bb0222189d4be24403ff99430f2afc");
  EXPECT_EQ(BucketPolicy().set(sym::rows, BucketRule::ladder(0.25)).digest().hex(),
            "3e3ea556046e6d62a4b2331c8de3cf49");
}

TEST(section2_variant, ANewSchemaChangesEveryKey) {
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const ModelVariant v = random_variant(random);
    KeyWriter now("variant"), next("variant", kKeySchema + 1);
    v.write_key(now);
    v.write_key(next);
    EXPECT_EQ(now.finish(), v.cache_key());
    EXPECT_NE(next.finish(), v.cache_key());
  }
}

TEST(section2_key_writer, FieldsCannotRunIntoOneAnother) {
  const auto bytes = [](const std::function<void(KeyWriter&)>& fill) {
    KeyWriter key("test");
    fill(key);
    return std::string(key.bytes());
  };
  const std::vector<std::string> all = {
      bytes([](KeyWriter&) {}),
      bytes([](KeyWriter& k) { k.text("a", "bc"); }),
      bytes([](KeyWriter& k) { k.text("ab", "c"); }),
      bytes([](KeyWriter& k) { k.text("a", "").text("b", "c"); }),
      bytes([](KeyWriter& k) { k.absent("a"); }),
      bytes([](KeyWriter& k) { k.text("a", ""); }),
      bytes([](KeyWriter& k) { k.integer("a", 0); }),
      bytes([](KeyWriter& k) { k.real("a", 0); }),
      bytes([](KeyWriter& k) { k.boolean("a", false); }),
      bytes([](KeyWriter& k) { k.boolean("a", true); }),
      bytes([](KeyWriter& k) { k.digest("a", {}); }),
      bytes([](KeyWriter& k) { k.list("a", 0); }),
      bytes([](KeyWriter& k) {
        k.set("a", std::vector<std::string>{"b", "c"});
      }),
      bytes([](KeyWriter& k) { k.set("a", std::vector<std::string>{"b"}).text("name", "c"); }),
      bytes([](KeyWriter& k) { k.set("a", std::vector<std::string>{"bc"}); }),
  };
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  EXPECT_EQ(bytes([](KeyWriter& k) {
              k.set("a", std::vector<std::string>{"b", "c", "b"});
            }),
            bytes([](KeyWriter& k) {
              k.set("a", std::vector<std::string>{"c", "b"});
            }));
  EXPECT_EQ(bytes([](KeyWriter& k) { k.real("a", -0.0); }),
            bytes([](KeyWriter& k) { k.real("a", 0.0); }));
}

TEST(section2_key_writer, LongKeysGoOnWhereShortOnesEnd) {
  KeyWriter key("test");
  std::string before;
  for (int i = 0; i < 500; ++i) {
    key.text("name", fmt::format("{}", i)).integer("i", i).digest("d", {1, 2});
    ASSERT_TRUE(key.bytes().starts_with(before));
    ASSERT_EQ(key.finish(), digest(key.bytes()));
    before = std::string(key.bytes());
  }
  // {tag, 8 of length, name} and the values: 9 + 4 + 8 + digits, 9 + 1 + 8, 9 + 1 + 16.
  const std::size_t start = KeyWriter("test").bytes().size();
  EXPECT_EQ(before.size(), start + 500 * (21 + 18 + 26) + 10 + 90 * 2 + 400 * 3);
  KeyWriter copy = key;
  EXPECT_EQ(copy.text("a", std::string(100000, 'x')).bytes().size(), before.size() + 100018);
  EXPECT_EQ(key.bytes(), before);
}

TEST(section2_buckets, ExactKeepsEverySize) {
  const DimBinding binding = ModelVariant::decode(3, 77, 1).dim_binding();
  EXPECT_EQ(BucketPolicy().round(binding), binding);
}

TEST(section2_buckets, LadderOfAQuarterHasFourStepsPerDoubling) {
  const BucketRule ladder = BucketRule::ladder(0.25);
  std::vector<std::int64_t> rungs;
  for (std::int64_t size = 0; size <= 33; ++size) {
    const std::int64_t up = ladder.upper(sym::rows, size);
    if (rungs.empty() || rungs.back() != up) rungs.push_back(up);
  }
  EXPECT_EQ(rungs, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28,
                                              32, 40}));
  EXPECT_EQ(BucketRule::ladder(1).upper(sym::rows, 33), 64);
  EXPECT_EQ(BucketRule::ladder(0.25), BucketRule::ladder(0.3));
}

TEST(section2_buckets, WasteOfALadderIsBounded) {
  std::mt19937_64 random(7);
  for (const double waste : {1e-300, 1e-6, 0.01, 0.1, 0.25, 0.3, 0.5, 0.7, 1.0, 5.0}) {
    const BucketRule ladder = BucketRule::ladder(waste);
    for (int i = 0; i < 2000; ++i) {
      const auto size = static_cast<std::int64_t>((random() >> 2) >> (random() % 62));
      const std::int64_t up = ladder.upper(sym::rows, size);
      ASSERT_GE(up, size);
      ASSERT_LE(static_cast<double>(up - size), waste * static_cast<double>(size));
      ASSERT_EQ(ladder.upper(sym::rows, up), up) << "a bucket is its own bucket";
      if (size > 0) {
        ASSERT_GE(up, ladder.upper(sym::rows, size - 1));
      }
    }
  }
}

TEST(section2_buckets, AListGivesTheFirstThatFits) {
  const BucketRule list = BucketRule::list({8, 64, 512});
  EXPECT_EQ(list.upper(sym::rows, 0), 8);
  EXPECT_EQ(list.upper(sym::rows, 8), 8);
  EXPECT_EQ(list.upper(sym::rows, 9), 64);
  EXPECT_EQ(list.upper(sym::rows, 512), 512);
  EXPECT_EQ(test::error_text(ErrorCode::limit, [&] { list.upper(sym::rows, 600); }),
            "symbol \"rows\": expected a size of at most 512, the last bucket, found 600");
}

TEST(section2_buckets, BadRulesAreErrors) {
  EXPECT_EQ(invalid_variant([] { BucketRule::ladder(0); }),
            "bucket ladder: expected a waste above 0, found 0");
  EXPECT_EQ(invalid_variant([] { BucketRule::ladder(std::nan("")); }),
            "bucket ladder: expected a waste above 0, found nan");
  EXPECT_EQ(invalid_variant([] { BucketRule::list({}); }),
            "bucket list: expected at least one size, found none");
  EXPECT_EQ(invalid_variant([] {
              BucketRule::list({8, 8});
            }),
            "bucket list: expected sizes that ascend from above 0, found 8 after 8");
  EXPECT_EQ(invalid_variant([] { BucketRule::list({0}); }),
            "bucket list: expected sizes that ascend from above 0, found 0 after 0");
  EXPECT_EQ(invalid_variant([] { BucketRule().upper(sym::seq, -1); }),
            "symbol \"seq\": expected a size of at least 0, found -1");
  EXPECT_EQ(test::error_text(ErrorCode::limit, [] { BucketRule::ladder(1).upper(sym::seq, kMost); }),
            "symbol \"seq\": the bucket of 9223372036854775807 does not fit in 64 bits");
}

TEST(section2_buckets, PoliciesArePerSymbol) {
  BucketPolicy policy;
  policy.set(sym::rows, BucketRule::ladder(1)).set(sym::batch, BucketRule::list({1, 4, 16}));
  EXPECT_EQ(policy.round(ModelVariant::prefill(3, 7).dim_binding()).text(),
            "batch=4,out_rows=3,rows=32,seq=7");
  policy.set_others(BucketRule::list({100}));
  EXPECT_EQ(policy.round(ModelVariant::prefill(3, 7).dim_binding()).text(),
            "batch=4,out_rows=100,rows=32,seq=100");
}

TEST(section2_buckets, DigestsAreEqualExactlyWhenPoliciesRoundAlike) {
  const BucketRule ladder = BucketRule::ladder(0.5), list = BucketRule::list({8, 64});
  const std::vector<BucketPolicy> all = {
      BucketPolicy(),
      BucketPolicy().set(sym::rows, ladder),
      BucketPolicy().set(sym::seq, ladder),
      BucketPolicy().set(sym::rows, BucketRule::ladder(0.25)),
      BucketPolicy().set(sym::rows, list),
      BucketPolicy().set(sym::rows, BucketRule::list({8, 65})),
      BucketPolicy().set(sym::rows, BucketRule::list({8})),
      BucketPolicy().set_others(ladder),
      BucketPolicy().set_others(ladder).set(sym::rows, BucketRule::exact()),
  };
  std::set<Digest> digests;
  for (const BucketPolicy& p : all) digests.insert(p.digest());
  EXPECT_EQ(digests.size(), all.size());

  BucketPolicy a, b;
  a.set(sym::rows, ladder).set(sym::seq, list);
  b.set(sym::seq, ladder).set(sym::seq, list).set(sym::rows, ladder);
  b.set(sym::batch, BucketRule::exact());  // what it is without being named
  EXPECT_EQ(a.digest(), b.digest());
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace rlx
