// The end of a tile of a product, while its sums are in the cache: bias, activation, gate, residual.
#pragma once

#include "backends/cpu/matmul_product.h"
#include "backends/cpu/matmul_tile.h"
#include "backends/cpu/simd_math.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// The tile's place in the result and its sums [weights][panels][tokens][16].
struct TileSums {
  std::int64_t panel, token;
  int panels, tokens, live;
  const float* c;
};

/// Asks for the lines of the result and the residual that finish_tile will touch: rows far apart, which come while the
/// tile multiplies.
inline void prefetch_result(const Product& p, const TileSums& t) {
  const std::int64_t column = t.panel * kPanelRows * std::int64_t{sizeof(float)};
  for (int m = 0; m < t.live; ++m)
    for (int r = 0; r < t.panels; ++r) {
      const std::int64_t at = column + r * kPanelRows * std::int64_t{sizeof(float)};
      _mm_prefetch(reinterpret_cast<const char*>(p.y.at(t.token + m) + at), _MM_HINT_T0);
      if (p.residual.data)
        _mm_prefetch(reinterpret_cast<const char*>(p.residual.at(t.token + m) + at), _MM_HINT_T0);
    }
}

/// The sums of one panel become a part of the result.
template <Act A>
RLX_SIMD void finish_panel(const Product& p, const TileSums& t, int r) {
  const std::int64_t column = (t.panel + r) * kPanelRows;
  const int lanes = static_cast<int>(min64(kPanelRows, p.n - column));
  const auto read = [&](const float* from) RLX_INLINE {
    return lanes == kLanes ? load(from) : load_partial(from, lanes);
  };
  const f32x16 bias = p.bias ? read(p.bias + column) : set1(-0.0f);  // v + -0 is v
  const float* c = t.c + r * t.tokens * kLanes;
  for (int m = 0; m < t.live; ++m, c += kLanes) {
    f32x16 v = activate<A>(load(c) + bias);
    if (p.weights == 2) v = v * load(c + t.panels * t.tokens * kLanes);
    const auto at = [&](const Rows& rows) RLX_INLINE {
      return reinterpret_cast<float*>(rows.at(t.token + m)) + column;
    };
    if (p.residual.data) v = v + read(at(p.residual));
    if (lanes == kLanes)
      store(at(p.y), v);
    else
      store_partial(at(p.y), v, lanes);
  }
}

/// A whole panel of one weight, into rows that lie one after the other: nothing is asked for each vector.
template <Act A, bool Residual>
RLX_SIMD void finish_whole_panel(const Product& p, const TileSums& t, int r) {
  const std::int64_t column = (t.panel + r) * kPanelRows, first = column * std::int64_t{sizeof(float)};
  const f32x16 bias = p.bias ? load(p.bias + column) : set1(-0.0f);
  const float* c = t.c + r * t.tokens * kLanes;
  std::byte* y = p.y.data + t.token * p.y.stride + first;
  const std::byte* residual = Residual ? p.residual.data + t.token * p.residual.stride + first : nullptr;
  for (int m = 0; m < t.live; ++m, c += kLanes, y += p.y.stride) {
    f32x16 v = activate<A>(load(c) + bias);
    if constexpr (Residual) {
      v = v + load(reinterpret_cast<const float*>(residual));
      residual += p.residual.stride;
    }
    store(reinterpret_cast<float*>(y), v);
  }
}

template <Act A>
void finish_tile(const Product& p, const TileSums& t) {
  const bool plain = p.weights == 1 && !p.y.index && !p.residual.index;
  for (int r = 0; r < t.panels; ++r) {
    if (!plain || (t.panel + r + 1) * kPanelRows > p.n)
      finish_panel<A>(p, t, r);
    else if (p.residual.data)
      finish_whole_panel<A, true>(p, t, r);
    else
      finish_whole_panel<A, false>(p, t, r);
  }
}
using FinishFn = void (*)(const Product&, const TileSums&);
constexpr FinishFn kFinish[] = {finish_tile<Act::none>, finish_tile<Act::silu>,
                                finish_tile<Act::gelu_tanh>, finish_tile<Act::gelu>,
                                finish_tile<Act::relu>};

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
