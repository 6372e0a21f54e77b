// Rotary positions, and the fused norm + RoPE + append, against plain loops.
#include "backends/kv_cache.h"

namespace rlx::cpu {
namespace {

Floats frequencies(std::int32_t rotary_dim, double base = 10000) {
  Floats f;
  for (std::int32_t i = 0; i < rotary_dim / 2; ++i) f.push_back(static_cast<float>(std::pow(base,
      -2.0 * i / rotary_dim)));
  return f;
}

// One head in place, in double from the f32 angle.
void rotate(float* x, const Rope& op, std::int32_t position, const Floats& inv_freq) {
  const int half = op.rotary_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double angle = static_cast<float>(position) * inv_freq[static_cast<std::size_t>(i)];
    float &a = x[op.style == RopeStyle::half ? i : 2 * i], &b = x[op.style == RopeStyle::half ? i + half : 2 * i + 1];
    const double c = std::cos(angle) * op.magnitude, s = std::sin(angle) * op.magnitude, first = a * c - b * s;
    b = static_cast<float>(b * c + a * s);
    a = static_cast<float>(first);
  }
}

TEST(Rope, BothStylesPartialAndFarPositions) {
  for (const Kernel& k : rows("rope"))
    for (const RopeStyle style : {RopeStyle::half, RopeStyle::adjacent})
      for (const auto& [head_dim, rotary_dim] : {std::pair{16, 16}, {24, 24}, {64, 64}, {80, 32},
          {128, 128}, {64, 6}, {40, 20}}) {
        const Rope op{head_dim, rotary_dim, style, 1.3f};  // YaRN's magnitude must show at positions above 0
        Floats inv_freq = frequencies(rotary_dim);
        std::vector<std::int32_t> positions = {0, 1, 5, 4095, 131071, 999999, 17};
        Floats x = normal(7 * 3 * static_cast<std::size_t>(head_dim), 1), expected = x, y(x.size());
        for (std::size_t r = 0; r < 7; ++r)
          for (std::size_t h = 0; h < 3; ++h)
            rotate(&expected[(r * 3 + h) * static_cast<std::size_t>(head_dim)], op, positions[r], inv_freq);
        run(k, &op, {view(x, {7, 3 * head_dim}), view(inv_freq, {rotary_dim / 2}), view(positions, {7})},
            {view(y, {7, 3 * head_dim})}, {.threads = 4});
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 2e-6) << k.name
            << " " << head_dim << " at " << i;
        run(k, &op, {view(x, {7, 3 * head_dim}), view(inv_freq, {rotary_dim / 2}), view(positions, {7})},
            {view(x, {7, 3 * head_dim})});
        EXPECT_TRUE(same_bits(x, y)) << "in place";
      }
}

Floats normed(Floats x, const Floats& w, std::size_t d, const RopeAppend& op) {
  for (std::size_t at = 0; at < x.size(); at += d) {
    double squares = 0;
    for (std::size_t i = 0; i < d; ++i) squares += double{x[at + i]} * x[at + i];
    for (std::size_t i = 0; i < d; ++i)
      x[at + i] = static_cast<float>(x[at + i] / std::sqrt(squares / static_cast<double>(d) + op.eps) *
                                     (double{w[i]} + op.weight_offset));
  }
  return x;
}

TEST(RopeAppend, EqualsNormRopeAndAppend) {
  for (const Kernel& k : rows("rope_append"))
    for (const bool norm : {false, true})
      for (const std::int32_t dim : {24, 64}) {
        const auto d = static_cast<std::size_t>(dim);
        const RopeAppend op{.head_dim = dim, .rotary_dim = dim, .norm = norm, .weight_offset = 0.5f};
        const Rope rope{dim, dim, op.style, op.magnitude};
        Batch b({60, 0}, {9, 3}, {1, 0});
        Cache cache(DType::f32, 2, dim, 2, 2);
        Floats q = normal(12 * 4 * d, 1), key = normal(12 * 2 * d, 2), value = normal(12 * 2 * d, 3), y(q.size());
        Floats inv_freq = frequencies(dim), qw = normal(d, 4), kw = normal(d, 5);
        std::vector<std::int32_t> positions;
        for (int i = 0; i < 12; ++i) positions.push_back(i < 9 ? 60 + i : i - 9);
        std::vector<TensorView> in = {cache.state(), view(q, {12, 4 * dim}),
            view(key, {12, 2 * dim}), view(value, {12, 2 * dim}),
                                      view(b.seq_start, {3}), view(b.past, {2}), view(b.slot, {2}), cache.pages(),
                                      view(inv_freq, {dim / 2}), view(positions, {12})};
        if (norm) in.insert(in.end(), {view(qw, {dim}), view(kw, {dim})});
        run(k, &op, in, {view(y, {12, 4 * dim}), cache.state()}, {.threads = 5});
        Floats eq = norm ? normed(q, qw, d, op) : q, ek = norm ? normed(key, kw, d, op) : key, k_row(d), v_row(d);
        for (std::size_t r = 0; r < 12; ++r) {
          for (std::size_t h = 0; h < 4; ++h) rotate(&eq[(r * 4 + h) * d], rope, positions[r], inv_freq);
          for (std::size_t h = 0; h < 2; ++h) {
            rotate(&ek[(r * 2 + h) * d], rope, positions[r], inv_freq);
            cache.load(r < 9 ? 1 : 0, positions[r], static_cast<std::int64_t>(h), k_row.data(), v_row.data());
            for (std::size_t i = 0; i < d; ++i) {
              ASSERT_NEAR(k_row[i], ek[(r * 2 + h) * d + i], 5e-6) << k.name;
              ASSERT_EQ(v_row[i], value[(r * 2 + h) * d + i]) << k.name;
            }
          }
        }
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], eq[i], 5e-6) << k.name;
      }
}

}  // namespace
}  // namespace rlx::cpu
