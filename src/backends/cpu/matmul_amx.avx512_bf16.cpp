// FusedLinear for many rows on the tile registers (AMX): rows become bf16, panels are unpacked to pairs of bf16, sums
// are f32. A tile instruction adds 32 k in an order of its own, so results differ in the last bits from those of other
// rows of the table: these run under --fast only (kernels.md, 2.8).
#include "backends/cpu/fused_run.h"
#include "backends/cpu/matmul_amx.h"
#include "backends/cpu/matmul_finish.h"
#include "backends/cpu/matmul_float.h"

#define RLX_AMX __attribute__((target("amx-tile,amx-bf16")))

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kTileRows = 16;  // of a tile register: rows of 64 bytes

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows, kTileRows};
};

/// Two columns of a panel as one line of pairs.
RLX_SIMD void store_pairs(std::byte* to, f32x16 even, f32x16 odd) {
  const auto halves = [](f32x16 v) RLX_INLINE {
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v.v)));
  };
  _mm512_storeu_si512(to, _mm512_or_si512(halves(even), _mm512_slli_epi32(halves(odd), 16)));
}

/// Columns [first, first + k) of a packed panel as lines of pairs; both are multiples of the group, or k ends it.
template <DType D>
void pair_unpack(const std::byte* panel, std::int64_t first, std::int64_t k, std::byte* out) noexcept {
  constexpr PanelInfo p = kPanel<D>;
  if constexpr (p.group == 0) {
    f32x16 even = zero_f32();
    constexpr std::int64_t column = D == DType::f32 ? 64 : 32;
    widen_floats<D>(panel + first * column, k, [&](std::int64_t i, f32x16 w) RLX_INLINE {
      if (i % 2 == 0)
        even = w;
      else
        store_pairs(out + i / 2 * kLineBytes, even, w);
    });
  } else {
    const std::byte* group = panel + first / p.group * p.group_bytes();
    for (std::int64_t done = 0; done < k; done += p.group, group += p.group_bytes()) {
      const int blocks = static_cast<int>(min64(p.group, k - done) / kBlock);
      for (int b = 0; b < blocks; ++b, out += kBlock / 2 * kLineBytes) {
        f32x16 even = zero_f32();
        widen_block<D>(group, b, [&](auto i, f32x16 w) RLX_INLINE {
          if constexpr (i % 2 == 0)
            even = w;
          else
            store_pairs(out + i / 2 * kLineBytes, even, w);
        });
      }
    }
  }
}

UnpackFn pair_unpack_of(DType w) {
  switch (w) {
#define RLX_CASE(type) \
  case DType::type:    \
    return pair_unpack<DType::type>;
    RLX_CASE(f32)
    RLX_CASE(f16)
    RLX_CASE(bf16)
    RLX_CASE(q4_0)
    RLX_CASE(q4_1)
    RLX_CASE(q5_0)
    RLX_CASE(q5_1)
    RLX_CASE(q8_0)
    RLX_CASE(iq4_nl)
    RLX_CASE(q2_K)
    RLX_CASE(q3_K)
    RLX_CASE(q4_K)
    RLX_CASE(q5_K)
    RLX_CASE(q6_K)
#undef RLX_CASE
    default:
      return nullptr;
  }
}

/// 32 tokens times two panels: c[panel][32][16] += x w^T over k columns, or = when `first`.
struct AmxTile {
  const std::byte* x;
  std::int64_t x_stride;
  const std::byte* w[2];
  std::int64_t k;
  bool first;
  float* c[2];
};

RLX_AMX void amx_tile(const AmxTile& t) {
  constexpr std::int64_t kSums = kTileRows * kLanes;  // floats of a tile of sums
  const std::byte* const low = t.x + kTileRows * t.x_stride;
  if (t.first) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  } else {
    _tile_loadd(0, t.c[0], kLineBytes);
    _tile_loadd(1, t.c[1], kLineBytes);
    _tile_loadd(2, t.c[0] + kSums, kLineBytes);
    _tile_loadd(3, t.c[1] + kSums, kLineBytes);
  }
  for (std::int64_t k = 0; k < t.k; k += 2 * kTileRows) {
    _tile_loadd(4, t.x + k * 2, t.x_stride);
    _tile_loadd(6, t.w[0] + k * 32, kLineBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, t.w[1] + k * 32, kLineBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, low + k * 2, t.x_stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, t.c[0], kLineBytes);
  _tile_stored(1, t.c[1], kLineBytes);
  _tile_stored(2, t.c[0] + kSums, kLineBytes);
  _tile_stored(3, t.c[1] + kSums, kLineBytes);
}

/// One or two panels of a product, and a chunk of tokens that sweeps over them.
struct AmxSweep {
  std::int64_t panel;
  int panels;
  std::int64_t first_token, count;
};

void amx_panels(const Product& p, const Rows& x, const AmxSweep& at, std::byte* scratch) {
  const auto [panel, panels, first_token, count] = at;
  const UnpackFn unpack = pair_unpack_of(p.w_type);
  const std::int64_t bytes = panel_bytes(p.w_type, p.k);
  std::byte* const unpacked = scratch;
  auto* const sums = reinterpret_cast<float*>(scratch + kAmxPanelBytes * p.weights * kTilePanels);
  const std::int64_t tile_sums = std::int64_t{p.weights} * kTilePanels * kAmxTokens * kLanes;
  for (std::int64_t k = 0; k < p.k; k += kAmxDepth) {
    const std::int64_t depth = min64(kAmxDepth, p.k - k);
    for (int i = 0; i < p.weights * panels; ++i)
      unpack(p.w[i / panels] + (panel + i % panels) * bytes, k, depth,
             unpacked + (i / panels * kTilePanels + i % panels) * kAmxPanelBytes);
    for (std::int64_t m = 0; m < count; m += kAmxTokens) {
      float* const c = sums + m / kAmxTokens * tile_sums;
      for (int i = 0; i < p.weights; ++i) {
        AmxTile t{x.data + (first_token + m) * x.stride + k * 2, x.stride, {}, depth, k == 0, {}};
        for (int r = 0; r < kTilePanels; ++r) {
          // Without a second panel the first one stands in: its sums go where nobody reads them.
          t.w[r] = unpacked + (i * kTilePanels + (r < panels ? r : 0)) * kAmxPanelBytes;
          t.c[r] = c + (i * panels + (r < panels ? r : 0)) * kAmxTokens * kLanes;
        }
        if (panels == 1) t.c[1] = sums + kAmxChunk / kAmxTokens * tile_sums;
        amx_tile(t);
      }
      if (k + depth >= p.k)
        kFinish[static_cast<int>(p.act)](
            p, {panel, first_token + m, panels, kAmxTokens, static_cast<int>(min64(kAmxTokens, count - m)), c});
    }
  }
}

RLX_AMX void configure() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
RLX_AMX void release() { _tile_release(); }

}  // namespace

void fused_linear_amx(const void* op, const KernelArgs& a) noexcept {
  FusedLinear attrs = *static_cast<const FusedLinear*>(op);
  if (rows_of(a.in[0]).count < kAmxLeastRows) {
    attrs.to == DType::bf16 ? fused_linear(op, a) : avx512::fused_linear(op, a);
    return;
  }
  attrs.to = DType::bf16;
  const FusedRun run = fused_run(attrs, a);
  const Rows x = fused_rows(run);
  const MatmulShare share = matmul_share(run.panels, 1, a.thread, a.threads);
  std::byte* const scratch = a.scratch + fused_rows_scratch(DType::bf16, run.parts[0].k);
  configure();
  for (std::int64_t first = 0; first < x.count; first += kAmxChunk) {
    std::int64_t before = 0;  // panels of the products before this one
    for (int i = 0; i < attrs.products(); ++i) {
      const Product& p = run.parts[i];
      const std::int64_t panels = panel_count(p.n), end = min64(share.panel_end - before, panels);
      for (std::int64_t panel = share.panel_begin > before ? share.panel_begin - before : 0; panel < end; panel += 2)
        amx_panels(p, x, {panel, panel + 2 <= end ? 2 : 1, first, min64(kAmxChunk, x.count - first)}, scratch);
      before += panels;
    }
  }
  release();
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
