// Recurrent ops by hand-made values, the two forms against each other, and the state's rules: a
// sequence that begins reads nothing, others keep their rows.
#include "ops/recurrent.h"

#include "ops/materialize.h"
#include "ops/support.h"

namespace rlx {
namespace {

// y and the state of an op in the functional form.
template <typename Op>
std::vector<Tensor> run_functional(const Op& op, const std::vector<Tensor>& operands) {
  Graph graph;
  Builder b(graph);
  std::vector<Value> values;
  std::vector<NamedTensor> named;
  for (const Tensor& t : operands) {
    named.push_back({fmt::format("operand{}", values.size()), t});
    values.push_back(b.input(named.back().name, t.shape()));
  }
  const Value y = b.emit(op, values);
  graph.set_outputs({{"y", y}, {"state", b.result(y, 1)}});
  const auto results = Interpreter(std::move(graph)).run(named);
  return {results[0].tensor, results[1].tensor};
}

TEST(section12_CausalConv, SumsThePastRowsOldestFirst) {
  // Two lanes, three taps: lane 0 adds all three rows, lane 1 takes the row before the last.
  const auto got = run_functional(CausalConv1d{}, {f32({1, 4, 2}, {1, 10, 2, 20, 3, 30, 4, 40}),
                                                   f32({3, 2}, {1, 0, 1, 1, 1, 0})});
  expect_near(got[0], {1, 0, 3, 10, 6, 20, 9, 30});
  expect_near(got[1], {3, 30, 4, 40});
}

TEST(section12_CausalConv, ReadsTheStateAndAppliesBiasAndActivation) {
  const auto got = run_functional(
      CausalConv1d{.act = Act::relu, .bias = true},
      {f32({2, 1, 1}, {1, -1}), f32({3, 1}, {100, 10, 1}), f32({1}, {0.5f}), f32({2, 2, 1}, {7, 8, 0, 0})});
  expect_near(got[0], {781.5, 0});  // 7 * 100 + 8 * 10 + 1 + bias; relu(-1 + bias)
  expect_near(got[1], {8, 1, 0, -1});
}

TEST(section12_SelectiveScan, IsTheRecurrenceOfThePaper) {
  // One lane, two states: h = exp(dt a) h + dt b x.
  const Tensor x = f32({1, 2, 1}, {2, 3}), dt = f32({1, 2, 1}, {0.5f, 1}),
               a = f32({2, 1}, {-1, -2}), in = f32({1, 2, 2}, {1, 2, 3, 4}),
               out = f32({1, 2, 2}, {1, 1, 1, -1}), d = f32({1}, {10});
  const double h0 = 1, h1 = 2, g0 = std::exp(-1.0) * h0 + 9, g1 = std::exp(-2.0) * h1 + 12;
  const auto plain = run_functional(SelectiveScan{.softplus = false}, {x, dt, a, in, out, d});
  expect_near(plain[0], {h0 + h1 + 20, g0 - g1 + 30});
  expect_near(plain[1], {g0, g1});
  // softplus(log(e^s - 1)) = s.
  const Tensor raw = f32({1, 2, 1}, {static_cast<float>(std::log(std::exp(0.5) - 1)),
                                     static_cast<float>(std::log(std::exp(1.0) - 1))});
  expect_near(run_functional(SelectiveScan{}, {x, raw, a, in, out, d})[0],
              {h0 + h1 + 20, g0 - g1 + 30}, 1e-5);
}

TEST(section12_SsdScan, HeadsShareTheGroupsAndLimitTheStep) {
  // Four heads of one lane, two groups of one state, no decay: y = c * b * dt * x.
  const SsdScan op{.heads = 4, .groups = 2, .softplus = false, .dt_min = 0.5f, .dt_max = 2};
  const auto got = run_functional(
      op, {f32({1, 1, 4}, {1, 1, 1, 1}), f32({1, 1, 4}, {0, 1, 1, 9}), f32({4}, {0, 0, 0, 0}),
           f32({1, 1, 2}, {3, 5}), f32({1, 1, 2}, {1, 10}), f32({4}, {0, 0, 0, 7}),
           f32({4}, {0, 0, 0.5f, 0})});
  expect_near(got[0], {1.5, 3, 75, 107});
  expect_near(got[1], {1.5, 3, 7.5, 10});
}

TEST(section12_GatedDelta, RecallsWhatItStored) {
  // The delta rule replaces the value of a key: with unit keys and beta = 1 the last value is read.
  const GatedDelta op{.heads = 1, .key_heads = 1, .l2_norm = true, .eps = 0};
  const Tensor keys = f32({1, 3, 2}, {2, 0, 0, 5, 3, 0}), values = f32({1, 3, 1}, {7, 8, 9});
  const auto got = run_functional(op, {keys, keys, values, f32({1, 3, 1}, {0, 0, 0}),
                                       f32({1, 3, 1}, {1, 1, 1})});
  expect_near(got[0], {7, 8, 9});
  expect_near(got[1], {9, 8});
  // Half the decay, half the step: s = 0.5 s + k * 0.5 (v - 0.5 s).
  const float half = static_cast<float>(std::log(0.5));
  const auto slow = run_functional(op, {keys, keys, values, f32({1, 3, 1}, {half, half, half}),
                                        f32({1, 3, 1}, {0.5f, 0.5f, 0.5f})});
  // Key 0: 3.5, decays to 1.75, then 0.875 + 0.5 * (9 - 0.875).
  expect_near(slow[0], {3.5, 4, 4.9375});
}

// The operands of a sample, with the state rows of all slots replaced.
std::vector<Tensor> run_with_state(const OpDef& def, const Sample& s, std::vector<Tensor> values,
                                   float fill) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (s.operands[i].fill == Fill::recurrent)
      for (float& v : values[i].mutable_as<float>()) v = fill;
  return run_sample(def, s, values);
}

TEST(section12_RecurrentState, SequencesThatBeginReadNothing) {
  for (const char* name : {"causal_conv1d", "selective_scan", "ssd_scan", "gated_delta"}) {
    const OpDef& def = *find_op(name);
    for (const Sample& s : def.samples()) {
      if (s.name.find("prompt_") == std::string::npos) continue;
      const std::vector<Tensor> values = materialize(s, 3);
      EXPECT_EQ(run_with_state(def, s, values, 0.0f)[0].to_floats(),
                run_with_state(def, s, values, 1e9f)[0].to_floats())
          << name << " " << s.name;
    }
  }
}

TEST(section12_RecurrentState, RestingSlotsKeepTheirRows) {
  for (const char* name : {"causal_conv1d", "selective_scan", "ssd_scan", "gated_delta"}) {
    const OpDef& def = *find_op(name);
    for (const Sample& s : def.samples()) {
      std::size_t state = 0, past = 0;
      for (std::size_t i = 0; i < s.operands.size(); ++i)
        if (s.operands[i].fill == Fill::recurrent) state = i, past = i + 2;
      if (state == 0) continue;
      const std::vector<Tensor> values = materialize(s, 4);
      const std::vector<float> before = values[state].to_floats(),
                               after = run_sample(def, s, values)[1].to_floats();
      const std::vector<std::int32_t>&starts = s.operands[state + 1].ints,
      &slots = s.operands[past + 1].ints;
      const std::size_t size = before.size() / static_cast<std::size_t>(values[state].dims()[0]);
      for (std::int32_t slot = 0; slot < s.operands[state].ints[0]; ++slot) {
        bool steps = false;
        for (std::size_t b = 0; b < slots.size(); ++b)
          steps = steps || (slots[b] == slot && starts[b + 1] > starts[b]);
        const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(slot) * size);
        EXPECT_EQ(std::equal(before.begin() + at, before.begin() + at + static_cast<std::ptrdiff_t>(size),
                             after.begin() + at),
                  !steps)
            << name << " " << s.name << " slot " << slot;
      }
    }
  }
}

TEST(section12_Recurrent, MessagesNameTheOperand) {
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(shape_error(CausalConv1d{}, {"f32[5, 8]", "f32[4, 8]", "recurrent<f32>[4, 8]", "i32[2]", "i32[1]", "i32[1]"}),
      "state: expected [3, 8], found recurrent<f32>[4, 8]");
  has(shape_error(CausalConv1d{}, {"f32[1, 5, 8]", "f32[1, 8]"}), "w: expected a fixed number of 2 or more rows");
  has(shape_error(CausalConv1d{}, {"f32[5, 8]", "f32[4, 8]", "recurrent<f32>[3, 8]", "i32[2]"}),
      "the state form: state, seq_start, past, slot");
  has(shape_error(SsdScan{.heads = 4, .groups = 3},
                  {"f32[1, 2, 8]", "f32[1, 2, 4]", "f32[4]", "f32[1, 2, 6]", "f32[1, 2, 6]", "f32[4]", "f32[4]"}),
      "groups: expected a divisor of the 4 heads, found 3");
  has(shape_error(GatedDelta{.heads = 2, .key_heads = 1},
                  {"f32[1, 2, 8]", "f32[1, 2, 8]", "f32[1, 2, 6]", "f32[1, 2, 3]", "f32[1, 2, 2]"}),
      "heads");
}

TEST(section12_Recurrent, StatesPrintAndParse) {
  const Shape s = Shape::recurrent_state({8, 16, 4});
  EXPECT_EQ(s.text(), "recurrent<f32>[8, 16, 4]");
  EXPECT_EQ(Shape::parse(s.text()), s);
  EXPECT_THROW(Shape::parse("recurrent<f32>[]"), Error);
  EXPECT_THROW(Shape::parse("recurrent<f32>[0, 2]"), Error);
  EXPECT_THROW(Shape::parse("recurrent<f32>[rows]"), Error);
}

}  // namespace
}  // namespace rlx
