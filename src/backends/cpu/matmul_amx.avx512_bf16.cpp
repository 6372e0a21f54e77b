// FusedLinear for many rows on the tile registers (AMX): rows become bf16, panels are unpacked to pairs of bf16, sums
// are f32. A tile instruction adds 32 k in an order of its own, so results differ in the last bits from those of other
// rows of the table: these run under --fast only (kernels.md, 2.8). An output is one chain over k in steps of 32,
// whatever the number of threads, rows and panels.
#include "backends/cpu/fused_run.h"
#include "backends/cpu/matmul_amx.h"
#include "backends/cpu/matmul_amx_unpack.h"
#include "backends/cpu/matmul_finish.h"
#include "backends/cpu/tile_registers.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// What the workers of a call share, zeroed when it begins.
struct Counters {
  std::int32_t made;     ///< rows that are made
  std::int32_t rows;     ///< the next row to make
  std::int32_t panels;   ///< the next panel of the next chunk
};
static_assert(sizeof(Counters) <= kFusedCounters);

constexpr int kMostProducts = 3, kMostOperands = 2 * kMostProducts + 3;  // weights and biases; input, norm, residual

// ---- rows ----

// Rows were written by other workers: without asking ahead a line costs 40 ns, since the processor's own prefetching
// ends with a page.
RLX_SIMD void ask_ahead(const float* x) { _mm_prefetch(reinterpret_cast<const char*>(x + 512), _MM_HINT_T0); }

/// 1 / rms of a row, or 1 without a norm. Two partial sums: other last bits than RmsNorm, as all of these kernels.
float row_scale(const FusedLinear& op, const float* x, std::int64_t k) noexcept {
  if (!op.norm) return 1.0f;
  f32x16 even = zero_f32(), odd = zero_f32();
  for (std::int64_t i = 0; i < k; i += 2 * kLanes) {
    ask_ahead(x + i);
    ask_ahead(x + i + kLanes);
    even = fma(load(x + i), load(x + i), even);
    odd = fma(load(x + i + kLanes), load(x + i + kLanes), odd);
  }
  return inverse_rms(sum(even + odd), k, op.eps);
}

/// A row as bf16, 32 k at a time: its line in each tile of the strip. (Subnormals become 0, as in the tiles.)
void pack_row(const FusedRun& run, const float* x, const float* norm, std::byte* to) noexcept {
  const std::int64_t k = run.parts[0].k;
  const f32x16 scale = set1(row_scale(run.op, x, k)), offset = set1(run.op.weight_offset);
  for (std::int64_t i = 0; i < k; i += kAmxStep, to += 2 * kAmxTileBytes) {
    f32x16 low = load(x + i), high = load(x + i + kLanes);
    if (norm) {
      low = low * scale * (load(norm + i) + offset);
      high = high * scale * (load(norm + i + kLanes) + offset);
    } else {
      ask_ahead(x + i);
      ask_ahead(x + i + kLanes);
    }
    _mm512_storeu_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high.v, low.v)));
  }
}

/// All rows in strips of 32: [strip][k / 32][32 rows][32] bf16, so that a tile is 1 KiB without gaps: rows of 4 KiB or
/// more would all fall on the same lines of L1. Returns when all rows are made.
const std::byte* pack_rows(const FusedRun& run) noexcept {
  constexpr std::int32_t kRun = 4;
  const KernelArgs& a = run.a;
  auto* const counters = reinterpret_cast<Counters*>(a.shared);
  std::byte* const packed = a.shared + kFusedCounters;
  const Product& p = run.parts[0];
  const auto* norm = run.op.norm ? static_cast<const float*>(a.in[run.op.norm_at()].data) : nullptr;
  std::int64_t mine = 0;
  for (;;) {
    const std::int64_t first = __atomic_fetch_add(&counters->rows, kRun, __ATOMIC_RELAXED);
    if (first >= p.x.count) break;
    const std::int64_t end = min64(first + kRun, p.x.count);
    for (std::int64_t r = first; r < end; ++r)
      pack_row(run, reinterpret_cast<const float*>(p.x.at(r)), norm,
               packed + r / kAmxTokens * kAmxTokens * p.k * 2 + r % kAmxTokens * kLineBytes);
    mine += end - first;
  }
  meet(&counters->made, mine, p.x.count);
  return packed;
}

// ---- products ----

/// A strip of rows times a panel: c[32][16] += x w^T over k columns, or = when `first`.
struct AmxTile {
  const std::byte* x;
  const std::byte* w;
  std::int64_t k;
  bool first;
  float* c;
  const std::byte* ahead;  ///< what the next tiles read of the rows
  int lines;               ///< of it, for each step
};

// With a busy neighbour on its core, a thread has hardly more tile registers than it can name: an instruction waits
// until an older one gives a register back, and the usual two by two tiles (all eight in use) run at a quarter of the
// peak (0.57 of 2.35 TFLOP/s). Two sums, two factors that are zeroed after their last use (which frees them) and four
// tiles that are never touched run at half of it there (1.15), and no slower elsewhere.
RLX_AMX inline void amx_tile(const AmxTile& t) {
  constexpr std::int64_t kHalf = kAmxTileSums / 2;
  if (t.first) {
    _tile_zero(0);
    _tile_zero(1);
  } else {
    _tile_loadd(0, t.c, kLineBytes);
    _tile_loadd(1, t.c + kHalf, kLineBytes);
  }
  const std::byte *x = t.x, *w = t.w, *ahead = t.ahead;
  for (std::int64_t k = 0; k < t.k; k += kAmxStep, x += 2 * kAmxTileBytes, w += kAmxTileBytes) {
    _tile_loadd(3, w, kLineBytes);
    _tile_loadd(2, x, kLineBytes);
    _tile_dpbf16ps(0, 2, 3);
    _tile_loadd(2, x + kAmxTileBytes, kLineBytes);
    _tile_dpbf16ps(1, 2, 3);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i < t.lines; ++i, ahead += kLineBytes)
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
  }
  _tile_stored(0, t.c, kLineBytes);
  _tile_stored(1, t.c + kHalf, kLineBytes);
  _tile_zero(0);
  _tile_zero(1);
}

/// The end of a tile whose result the next product reads in strips (pack_rows): the same numbers, rounded to bf16 here.
template <Act A>
void finish_strip(const Product& p, const TileSums& t) {
  std::byte* const strip = p.y.data + t.token * p.n * 2;
  for (int r = 0; r < t.panels; ++r) {
    const std::int64_t column = (t.panel + r) * kPanelRows;
    std::byte* const to = strip + column / kAmxStep * 2 * kAmxTileBytes + column % kAmxStep * 2;
    for (int m = 0; m < t.live; ++m) {
      const float* c = t.c + (r * t.tokens + m) * kLanes;
      const f32x16 v = activate<A>(load(c)) * load(c + t.panels * t.tokens * kLanes);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + m * kLineBytes),
                          reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v.v)));
    }
  }
}
constexpr FinishFn kFinishStrip[] = {finish_strip<Act::none>, finish_strip<Act::silu>, finish_strip<Act::gelu_tanh>,
                                     finish_strip<Act::gelu>, finish_strip<Act::relu>};

/// Some panels of a product, and a chunk of rows that sweeps over them.
struct AmxSweep {
  std::int64_t panel;
  int panels;
  std::int64_t first_token, count;
  FinishFn finish;
};

RLX_AMX void amx_panels(const Product& p, const std::byte* rows, const AmxSweep& at, std::byte* scratch) {
  const UnpackFn unpack = pair_unpack_of(p.w_type);
  const std::int64_t bytes = panel_bytes(p.w_type, p.k);
  const int tiles = p.weights * at.panels;
  auto* const sums = reinterpret_cast<float*>(scratch + kAmxPanels * kAmxPanelBytes);
  const std::byte* const strips = rows + at.first_token * p.k * 2;
  // The strip's next columns, or the next strip: 32 lines for each step of one panel.
  const int lines = (kAmxTokens + tiles - 1) / tiles;
  for (std::int64_t k = 0; k < p.k; k += kAmxDepth) {
    const std::int64_t depth = min64(kAmxDepth, p.k - k);
    for (int i = 0; i < tiles; ++i)
      unpack(p.w[i / at.panels] + (at.panel + i % at.panels) * bytes, k, depth, scratch + i * kAmxPanelBytes);
    for (std::int64_t m = 0; m < at.count; m += kAmxTokens) {
      float* const c = sums + m / kAmxTokens * tiles * kAmxTileSums;
      const std::byte* x = strips + m * p.k * 2 + k * kAmxTokens * 2;
      for (std::int64_t inner = 0; inner < depth; inner += kAmxInner, x += kAmxInner * kAmxTokens * 2) {
        const std::int64_t columns = min64(kAmxInner, depth - inner);
        const std::byte* ahead = x + kAmxInner * kAmxTokens * 2;
        for (int i = 0; i < tiles; ++i) {
          const std::byte* w = scratch + i * kAmxPanelBytes + inner * 32;
          amx_tile({x, w, columns, k + inner == 0, c + i * kAmxTileSums, ahead, lines});
          ahead += columns / kAmxStep * lines * kLineBytes;
        }
      }
      if (k + depth >= p.k)
        at.finish(p, {at.panel, at.first_token + m, at.panels, kAmxTokens,
                      static_cast<int>(min64(kAmxTokens, at.count - m)), c});
    }
  }
}

/// Takes panels of a chunk from what is left: runs that grow shorter towards the end, since a thread with a busy
/// neighbour is half as fast as others. Null: nothing is left.
const Product* take_panels(const FusedRun& run, std::int32_t* next, AmxSweep& to) noexcept {
  const std::int64_t rows = run.parts[0].x.count, chunks = (rows + kAmxChunk - 1) / kAmxChunk;
  std::int32_t at = __atomic_load_n(next, __ATOMIC_RELAXED);
  for (;;) {
    const std::int64_t left = chunks * run.panels - at;
    if (left <= 0) return nullptr;
    const Product* p = run.parts;
    std::int64_t panel = at % run.panels;
    for (; panel >= panel_count(p->n); ++p) panel -= panel_count(p->n);
    const std::int64_t least = kAmxLeastPanels / p->weights, most = kAmxPanels / p->weights;
    const std::int64_t fair = left / (2 * run.a.threads), wanted = min64(fair > least ? fair : least, most);
    const std::int64_t panels = min64(wanted, panel_count(p->n) - panel);
    if (!__atomic_compare_exchange_n(next, &at, at + static_cast<std::int32_t>(panels), true, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
      continue;
    const std::int64_t token = at / run.panels * kAmxChunk;
    const bool strips = run.a.out[0].layout == Layout::p16;
    to = {panel, static_cast<int>(panels), token, min64(kAmxChunk, rows - token),
          (strips ? kFinishStrip : kFinish)[static_cast<int>(p->act)]};
    return p;
  }
}

/// Few rows, on vectors: rows of f32 also where more rows were strips.
void few_rows(const void* op, KernelArgs a) noexcept {
  TensorView in[kMostOperands], out[kMostProducts];
  const auto plain = [](const TensorView& from) {
    TensorView v = from;
    v.layout = Layout::plain;
    v.strides[v.rank - 2] = v.dims[v.rank - 1] * std::int64_t{sizeof(float)};
    return v;
  };
  for (int i = 0; i < a.inputs; ++i) in[i] = i == 0 && a.in[i].layout == Layout::p16 ? plain(a.in[i]) : a.in[i];
  for (int i = 0; i < a.outputs; ++i) out[i] = a.out[i].layout == Layout::p16 ? plain(a.out[i]) : a.out[i];
  a.in = in;
  a.out = out;
  const bool bf16 = static_cast<const FusedLinear*>(op)->to == DType::bf16;
  bf16 ? fused_linear(op, a) : avx512::fused_linear(op, a);
}

}  // namespace

void fused_linear_amx(const void* op, const KernelArgs& a) noexcept {
  if (rows_of(a.in[0]).count < kAmxLeastRows) return few_rows(op, a);
  const FusedRun run = fused_run(*static_cast<const FusedLinear*>(op), a);
  const std::byte* const rows = a.in[0].layout == Layout::p16 ? run.parts[0].x.data : pack_rows(run);
  std::int32_t* const counter = &reinterpret_cast<Counters*>(a.shared)->panels;
  configure();
  AmxSweep sweep{};
  while (const Product* p = take_panels(run, counter, sweep)) amx_panels(*p, rows, sweep, a.scratch);
  release();
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
