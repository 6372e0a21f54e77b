// Runs Linear and GatedLinear: cuts the product into tiles, calls the kernels of the two types, and
// finishes each tile (bias, activation, residual) while its sums are in the cache.
#include "backends/cpu/fused_run.h"
#include "backends/cpu/matmul_finish.h"
#include "backends/cpu/matmul_reading.h"
#include "ops/matmul.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// The kernels of the product's types.
struct Kernels {
  const ProductKernels* product;
  const TileKernels* tiles;
  bool widen;  ///< bf16 tokens become f32
};
Kernels kernels_for(DType x, DType w) {
#if defined(RLX_ISA_avx512_bf16)
  (void)x;
  return {bf16_kernels(w), &bf16_tiles(), false};
#else
  if (x != DType::xq8) return {float_kernels(w), &float_tiles(), x == DType::bf16};
  const ProductKernels* k = block_kernels(w);
  return {k ? k : super_kernels(w), int_tiles(w), false};
#endif
}

/// Tokens of a chunk in the form that the kernels read: at `first` with `stride` bytes between
/// them, and their prep.
struct Tokens {
  const std::byte* first;
  std::int64_t stride;
  const float* prep;
};

/// The smallest kernel for so many tokens: 1, 2, 4 or `most`.
int kernel_tokens(int tokens, int most) {
  const int power = tokens <= 2 ? tokens : 4;
  return tokens <= 4 && power <= most ? power : most;
}

/// Makes a chunk of tokens ready, in tiles of `step`.
Tokens prepare(const Product& p, const Kernels& kernels, std::int64_t first, std::int64_t count,
               int step) {
  Tokens t{p.x.data + first * p.x.stride, p.x.stride, nullptr};
  auto* out = reinterpret_cast<float*>(p.scratch);
  if (kernels.product->prepare) {
    t.prep = out;
    const std::int64_t floats = prep_floats(p.w_type, p.k);
    for (std::int64_t m = 0; m < count; m += step) {
      const int live = static_cast<int>(min64(step, count - m)), tokens = kernel_tokens(live, step);
      kernels.product->prepare(
          {t.first + m * t.stride, t.stride, p.k, tokens, live, out + m * floats});
    }
  }
#if !defined(RLX_ISA_avx512_bf16)
  if (kernels.widen) {
    widen_tokens({t.first, t.stride, p.k, static_cast<int>(count), static_cast<int>(count), out});
    t.first = p.scratch;
    t.stride = p.k * 4;
  }
#endif
  return t;
}

/// Few tokens: the packed panels are decoded in registers and stream from memory once.
void stream_panels(const Product& p, const Kernels& kernels, const MatmulShare& share, int at_once, TileFn run) {
  const int live = static_cast<int>(p.x.count), tokens = kernel_tokens(live, kDirectTokens);
  const Tokens x = prepare(p, kernels, 0, live, kDirectTokens);
  const std::int64_t bytes = panel_bytes(p.w_type, p.k);
  alignas(64) float c[2 * kDirectPanels * kDirectTokens * kLanes];
  for (std::int64_t panel = share.panel_begin; panel < share.panel_end; panel += at_once) {
    const int panels = static_cast<int>(min64(at_once, share.panel_end - panel));
    for (int i = 0; i < p.weights; ++i) {
      Tile t{};
      t.w = p.w[i] + panel * bytes, t.w_stride = bytes;
      t.x = x.first, t.x_stride = x.stride, t.live = live, t.prep = x.prep;
      t.k = p.k, t.first = true, t.panels = panels;
      t.c = c + i * panels * tokens * kLanes;
      run(t);
    }
    kFinish[static_cast<int>(p.act)](p, {panel, 0, panels, tokens, live, c});
  }
}

// Of this thread, by type.
thread_local ReadingChoice reading_choices[static_cast<int>(DType::xq8)];  // the last dtype is no weight's
// Less is in the caches, or over before the clock can tell.
constexpr std::int64_t kLeastTimed = 16 << 10;

void run_direct(const Product& p, const Kernels& kernels, const MatmulShare& share) {
  const int tokens = kernel_tokens(static_cast<int>(p.x.count), kDirectTokens);
  if (tokens > 1 || !kernels.product->ahead[0])
    return stream_panels(p, kernels, share, kDirectPanels, kernels.product->direct[tokens]);
  ReadingChoice& choice = reading_choices[static_cast<int>(p.w_type)];
  const Reading reading = choice.next();
  const std::int64_t bytes =
      (share.panel_end - share.panel_begin) * panel_bytes(p.w_type, p.k) * p.weights;
  const bool timed = !choice.done() && bytes >= kLeastTimed;
  const std::uint64_t start = timed ? __rdtsc() : 0;
  stream_panels(p, kernels, share, reading.panels, kernels.product->ahead[reading.ahead]);
  if (timed) choice.record(static_cast<float>(__rdtsc() - start) / static_cast<float>(bytes));
}

/// A chunk of tokens and a few panels.
struct Sweep {
  const Tokens& x;
  std::int64_t chunk, count;  ///< first token and number
  std::int64_t panel;
  int panels;
};

/// Many tokens: the panels are unpacked, a part of k at a time, and the tokens sweep over them in
/// tiles.
void sweep_panels(const Product& p, const Kernels& kernels, const Sweep& at) {
  const MatmulScratch sizes = matmul_scratch(p.x_type, p.w_type, p.k, p.weights);
  std::byte* const unpacked = p.scratch + sizes.prep;
  auto* const sums = reinterpret_cast<float*>(unpacked + sizes.panels);
  const bool int8 = p.x_type == DType::xq8;
  const std::int64_t bytes = panel_bytes(p.w_type, p.k),
                     slot = sizes.panels / (p.weights * kTilePanels);
  const std::int64_t depth = !kernels.product->unpack ? p.k : int8 ? kIntDepth : kFloatDepth;
  const std::int64_t x_bytes = int8 ? 1 : p.x_type == DType::f32 || kernels.widen ? 4 : 2;
  for (std::int64_t k = 0; k == 0 || k < p.k; k += depth) {
    Tile t{};
    t.k = min64(depth, p.k - k), t.first = k == 0;
    t.w_stride = kernels.product->unpack ? slot : bytes, t.x_stride = at.x.stride;
    for (int i = 0; kernels.product->unpack && i < p.weights * at.panels; ++i)
      kernels.product->unpack(p.w[i / at.panels] + (at.panel + i % at.panels) * bytes, k, t.k,
                              unpacked + i * slot);
    for (std::int64_t m = 0; m < at.count; m += kernels.tiles->tokens) {
      t.live = static_cast<int>(min64(kernels.tiles->tokens, at.count - m));
      const int tokens = kernel_tokens(t.live, kernels.tiles->tokens);
      t.x = at.x.first + m * t.x_stride + k * x_bytes;
      if (at.x.prep)
        t.prep = at.x.prep + m * prep_floats(p.w_type, p.k) + tokens * prep_floats(p.w_type, k);
      float* const c = sums + m * p.weights * at.panels * kLanes;
      const TileSums done{at.panel, at.chunk + m, at.panels, tokens, t.live, c};
      if (k + t.k >= p.k) prefetch_result(p, done);
      for (int i = 0; i < p.weights; ++i) {
        t.w = kernels.product->unpack ? unpacked + i * at.panels * slot : p.w[i] + at.panel * bytes;
        t.c = c + i * at.panels * tokens * kLanes;
        // The panel that the next sweep reads at this place, by the first tiles: it comes while they multiply.
        const std::int64_t turn = m / kernels.tiles->tokens;
        t.ahead = nullptr;
        if (!kernels.product->unpack && turn < at.panels && at.panel + at.panels + turn < panel_count(p.n))
          t.ahead = t.w + (at.panels + turn) * bytes;
        kernels.tiles->tile[at.panels - 1][tokens](t);
      }
      if (k + t.k >= p.k) kFinish[static_cast<int>(p.act)](p, done);
    }
  }
}

/// Tokens of a chunk so that chunks are about equal: the panels come from memory for each, and a last one of 5 tokens
/// (ViT: 197) would wait for them (ViT-base 82 -> 76 ms).
std::int64_t even_chunk(std::int64_t tokens, int tile) {
  const std::int64_t most = kChunkTokens / tile * tile, chunks = (tokens + most - 1) / most;
  return ((tokens + chunks - 1) / chunks + tile - 1) / tile * tile;
}

void run_tiles(const Product& p, const Kernels& kernels, const MatmulShare& share) {
  const int tile = kernels.tiles->tokens;
  const std::int64_t end = min64(share.tile_end * tile, p.x.count),
                     begin = share.tile_begin * tile, step = even_chunk(end - begin, tile);
  for (std::int64_t chunk = begin; chunk < end; chunk += step) {
    const std::int64_t count = min64(step, end - chunk);
    const Tokens x = prepare(p, kernels, chunk, count, tile);
    for (std::int64_t panel = share.panel_begin; panel < share.panel_end;) {
      const int panels = kernels.tiles->tile[1][1] && share.panel_end - panel >= 2 ? 2 : 1;
      sweep_panels(p, kernels, {x, chunk, count, panel, panels});
      panel += panels;
    }
  }
}

/// Whether so few tokens have a kernel that reads packed panels.
bool is_direct(const Product& p, const Kernels& kernels) {
  return p.x.count <= kDirectTokens &&
         kernels.product->direct[kernel_tokens(static_cast<int>(p.x.count), kDirectTokens)];
}
std::int64_t tile_count(const Product& p, const Kernels& kernels) {
  return is_direct(p, kernels) ? 1 : (p.x.count + kernels.tiles->tokens - 1) / kernels.tiles->tokens;
}

void run_share(const Product& p, const Kernels& kernels, const MatmulShare& share) {
  if (share.panel_begin == share.panel_end || share.tile_begin == share.tile_end) return;
  if (is_direct(p, kernels))
    run_direct(p, kernels, share);
  else
    run_tiles(p, kernels, share);
}

void run_product(const Product& p) {
  if (p.x.count == 0) return;
  const Kernels kernels = kernels_for(p.x_type, p.w_type);
  run_share(p, kernels,
            matmul_share(panel_count(p.n), tile_count(p, kernels), p.thread, p.threads));
}

/// Panels [begin, end) of one product for `count` tokens from `first` on.
void run_fused_part(Product p, const Rows& x, std::int64_t first, std::int64_t count, std::int64_t begin,
                    std::int64_t end) {
  p.x = x;
  p.x.data += first * x.stride;
  p.x.count = count;
  p.y.data += first * p.y.stride;
  if (p.residual.data) p.residual.data += first * p.residual.stride;
  const Kernels kernels = kernels_for(p.x_type, p.w_type);
  run_share(p, kernels, {begin, end, 0, tile_count(p, kernels)});
}

}  // namespace

Rows rows_of(const TensorView& v) {
  Rows r;
  r.data = static_cast<std::byte*>(v.data);
  for (int i = 0; i + 1 < v.rank; ++i) r.count *= v.dims[i];
  if (v.rank >= 2) r.stride = v.strides[v.rank - 2];
  return r;
}

void run_panels(const Product& p, std::int64_t begin, std::int64_t end) {
  if (p.x.count == 0) return;
  const Kernels kernels = kernels_for(p.x_type, p.w_type);
  run_share(p, kernels, {begin, end, 0, tile_count(p, kernels)});
}

void fused_linear(const void* op, const KernelArgs& a) noexcept {
  const FusedRun run = fused_run(*static_cast<const FusedLinear*>(op), a);
  const std::int64_t count = run.parts[0].x.count, unit = kMaxTileTokens;
  if (count == 0) return;
  const Rows x = fused_rows(run);  // every worker: the others wait for its rows
  const MatmulShare share = matmul_share(run.panels, (count + unit - 1) / unit, a.thread, a.threads);
  if (share.panel_begin == share.panel_end) return;
  const std::int64_t last = min64(share.tile_end * unit, count), begin_row = share.tile_begin * unit,
                     step = even_chunk(last - begin_row, kMaxTileTokens);
  for (std::int64_t first = begin_row; first < last; first += step) {
    std::int64_t before = 0;  // panels of the products before this one
    for (int i = 0; i < run.op.products(); ++i) {
      const std::int64_t panels = panel_count(run.parts[i].n);
      const std::int64_t begin = share.panel_begin > before ? share.panel_begin - before : 0,
                         end = min64(share.panel_end - before, panels);
      if (begin < end) run_fused_part(run.parts[i], x, first, min64(step, last - first), begin, end);
      before += panels;
    }
  }
}

void linear(const void* op, const KernelArgs& a) noexcept {
  const auto& attrs = *static_cast<const Linear*>(op);
  Product p = product(a, 1);
  p.act = attrs.act;
  if (attrs.bias) p.bias = static_cast<const float*>(a.in[2].data);
  if (attrs.residual) p.residual = rows_of(a.in[attrs.bias ? 3 : 2]);
  run_product(p);
}

void gated_linear(const void* op, const KernelArgs& a) noexcept {
  Product p = product(a, 2);
  p.act = static_cast<const GatedLinear*>(op)->act;
  run_product(p);
}

}  // namespace rlx::cpu::RLX_ISA_LEVEL
