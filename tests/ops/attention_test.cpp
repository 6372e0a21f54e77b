// Rotary positions, the paged cache and attention against values worked out by hand; the faults
// N07, N08 and N11.
#include "ops/attention.h"

#include <cmath>

#include "ops/block.h"
#include "ops/support.h"

namespace rlx {
namespace {

TEST(RopeValues, TurnsPairsByTheirAngle) {
  // inv_freq = pi / 2 at position 1: a quarter turn (x, y) -> (-y, x); position 2: half a turn.
  const Tensor quarter = f32({1}, {static_cast<float>(M_PI / 2)});
  const Tensor x = f32({2, 2}, {3, 4, 3, 4});
  expect_near(run_op(Rope{.head_dim = 2, .rotary_dim = 2}, {x, quarter, i32({1, 2})}),
              {-4, 3, -3, -4});
}

TEST(RopeValues, StylesPairOtherLanes) {
  const Tensor x = f32({1, 4}, {1, 2, 3, 4}), freq = f32({2}, {static_cast<float>(M_PI / 2), 0});
  const Rope half{.head_dim = 4, .rotary_dim = 4},
      adjacent{.head_dim = 4, .rotary_dim = 4, .style = RopeStyle::adjacent};
  expect_near(run_op(half, {x, freq, i32({1})}), {-3, 2, 1, 4});
  expect_near(run_op(adjacent, {x, freq, i32({1})}), {-2, 1, 3, 4});
}

TEST(RopeValues, PartialRotaryLeavesTheOtherLanes) {
  const Tensor x = f32({1, 8}, {1, 2, 3, 4, 5, 6, 7, 8}),
               freq = f32({1}, {static_cast<float>(M_PI / 2)});
  expect_near(run_op(Rope{.head_dim = 4, .rotary_dim = 2}, {x, freq, i32({1})}),
              {-2, 1, 3, 4, -6, 5, 7, 8});
}

// N07: the magnitude multiplies rotated lanes at every position, those that do not turn included,
// and no other lane.
TEST(RopeValues, MagnitudeScalesRotatedLanesOnly) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 1, 2, 3}), freq = f32({1}, {static_cast<float>(M_PI / 2)});
  const Rope yarn{.head_dim = 3, .rotary_dim = 2, .magnitude = 1.36889f};
  expect_near(run_op(yarn, {x, freq, i32({0, 5})}), {1.36889, 2.73778, 3, -2.73778, 1.36889, 3});
}

// A cache of one KV head, and rows whose keys are given and whose values are one-hot by position.
struct Toy {
  static constexpr std::int64_t kDim = 16;
  InterpreterState state{2, 1};
  std::int32_t past = 0;

  // Appends rows with keys `key` at lane 0, asks with q = 1 at lane 0; returns the rows of the
  // result.
  std::vector<float> step(const std::vector<float>& keys, Attention op, std::int32_t slot = 0) {
    const auto rows = static_cast<std::int64_t>(keys.size());
    std::vector<float> k(static_cast<std::size_t>(rows * kDim)), v(k.size()), q(k.size());
    for (std::size_t r = 0; r < keys.size(); ++r) {
      k[r * kDim] = keys[r];
      q[r * kDim] = 1;
      v[r * kDim + (static_cast<std::size_t>(past) + r) % kDim] = 1;
    }
    Graph graph;
    Builder b(graph);
    const Shape row({rows, kDim}, DType::f32);
    const Value cache = b.state("cache", Shape::kv_state(1, kDim, DType::f32)),
                pages = b.state("pages", Shape::page_table());
    const Value seq_start = b.input("seq_start", Shape({2}, DType::i32)),
                p = b.input("past", Shape({1}, DType::i32));
    const Value s = b.input("slot", Shape({1}, DType::i32)), qv = b.input("q", row),
                kv = b.input("k", row), vv = b.input("v", row);
    const Value appended = b(KvAppend{}, cache, kv, vv, seq_start, p, s, pages);
    graph.set_outputs({{"y", b(op, qv, appended, seq_start, p, s, pages)}});
    const std::vector<std::int64_t> dims = {rows, kDim};
    const std::vector<NamedTensor> inputs = {
        {"q", f32(dims, q)},   {"k", f32(dims, k)},
        {"v", f32(dims, v)},   {"past", i32({past})},
        {"slot", i32({slot})}, {"seq_start", i32({0, static_cast<std::int32_t>(rows)})}};
    const auto y = Interpreter(std::move(graph)).run(inputs, state);
    past += static_cast<std::int32_t>(rows);
    return y[0].tensor.to_floats();
  }
};

TEST(AttentionValues, SoftmaxOfTwoKeys) {
  Toy toy;
  const std::vector<float> y = toy.step({0, std::log(3.0f)}, {});
  EXPECT_FLOAT_EQ(y[0], 1);  // the first row sees itself only
  EXPECT_FLOAT_EQ(y[Toy::kDim], 0.25f);
  EXPECT_FLOAT_EQ(y[Toy::kDim + 1], 0.75f);
}

TEST(AttentionValues, ScaleMultipliesScores) {
  Toy toy;
  const std::vector<float> y = toy.step({0, 2 * std::log(3.0f)}, {.scale = 0.5f});
  EXPECT_FLOAT_EQ(y[Toy::kDim + 1], 0.75f);
}

// N08: window 4 over 10 tokens: row i sees max(0, i - 3) .. i, in one chunk, row by row and in
// chunks of 3.
TEST(AttentionValues, WindowCountsTheRowItself) {
  for (const std::size_t chunk : {10u, 1u, 3u}) {
    Toy toy;
    std::vector<float> y;
    for (std::size_t at = 0; at < 10; at += chunk) {
      const auto part =
          toy.step(std::vector<float>(std::min<std::size_t>(chunk, 10 - at), 0.0f), {.window = 4});
      y.insert(y.end(), part.begin(), part.end());
    }
    for (std::size_t i = 0; i < 10; ++i)
      for (std::size_t j = 0; j < 10; ++j) {
        const bool seen = j <= i && j + 3 >= i;
        EXPECT_FLOAT_EQ(y[i * Toy::kDim + j],
                        seen ? 1.0f / static_cast<float>(std::min<std::size_t>(i + 1, 4)) : 0.0f)
            << "chunk " << chunk << " row " << i << " key " << j;
      }
  }
}

// N11: scores of 600 and -600 with cap 50 become 50 and -50: weights 1 and e^-100; with cap 0.5
// they are nearly even.
TEST(AttentionValues, SoftcapIsApplied) {
  Toy wide, narrow;
  EXPECT_FLOAT_EQ(wide.step({600, -600}, {.softcap = 50})[Toy::kDim], 1.0f);
  EXPECT_NEAR(narrow.step({600, -600}, {.softcap = 0.5f})[Toy::kDim], 0.7310585786,
              1e-6);  // 1 / (1 + e^-1)
}

TEST(AttentionValues, SlotsAreApart) {
  Toy toy;
  toy.step({0, 0, 0}, {}, 1);
  toy.past = 0;
  const std::vector<float> y = toy.step({0, 0}, {}, 0);
  EXPECT_FLOAT_EQ(y[Toy::kDim], 0.5f);
  EXPECT_FLOAT_EQ(y[Toy::kDim + 2], 0.0f);
}

TEST(AttentionValues, MoreTokensThanPagesIsAnError) {
  Toy toy;
  toy.past = 63;
  EXPECT_THROW(toy.step({0, 0}, {}), Error);
}

// Query heads of a group read their own KV head.
TEST(AttentionValues, GroupedHeadsShareKvHeads) {
  Graph graph;
  Builder b(graph);
  const Value cache = b.state("cache", Shape::kv_state(2, 1, DType::f32)),
              pages = b.state("pages", Shape::page_table());
  const Value seq_start = b.input("seq_start", Shape({2}, DType::i32)),
              past = b.input("past", Shape({1}, DType::i32));
  const Value slot = b.input("slot", Shape({1}, DType::i32)),
              q = b.input("q", Shape({1, 4}, DType::f32));
  const Value k = b.input("k", Shape({1, 2}, DType::f32));
  const Value appended = b(KvAppend{}, cache, k, k, seq_start, past, slot, pages);
  graph.set_outputs({{"y", b(Attention{.heads = 4}, q, appended, seq_start, past, slot, pages)}});
  InterpreterState state(1, 1);
  const std::vector<NamedTensor> inputs = {{"q", f32({1, 4}, {1, 1, 1, 1})},
                                           {"k", f32({1, 2}, {7, 9})},
                                           {"past", i32({0})},
                                           {"slot", i32({0})},
                                           {"seq_start", i32({0, 1})}};
  expect_near(Interpreter(std::move(graph)).run(inputs, state)[0].tensor, {7, 7, 9, 9});
  EXPECT_FLOAT_EQ(state.export_cache("cache").to_floats()[1], 9);
}

}  // namespace
}  // namespace rlx
