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

struct Range {
  std::int64_t begin, end;
};

/// Tokens of a chunk in the form that the kernels read: `stride` bytes each. Those of int8 lie in tiles (TokenTile).
struct Tokens {
  const std::byte* first;
  std::int64_t stride;
};

/// The smallest kernel for so many tokens: 1, 2, 4 or `most`.
int kernel_tokens(int tokens, int most) {
  const int power = tokens <= 2 ? tokens : 4;
  return tokens <= 4 && power <= most ? power : most;
}

/// Makes int8 tokens [tokens.begin, tokens.end) ready in tiles of `tile`; out: the place of the first one.
void prepare_tiles(const Product& p, const Kernels& kernels, Range tokens, int tile, std::byte* out) {
  for (std::int64_t m = tokens.begin; m < tokens.end; m += tile, out += tile * ready_bytes(p.w_type, p.k)) {
    const int live = static_cast<int>(min64(tile, tokens.end - m));
    kernels.product->prepare({p.x.data + m * p.x.stride, p.x.stride, p.k, kernel_tokens(live, tile), live, out});
  }
}

/// Makes a chunk of tokens ready.
Tokens prepare(const Product& p, const Kernels& kernels, Range tokens, int tile) {
  Tokens t{p.x.data + tokens.begin * p.x.stride, p.x.stride};
  if (kernels.product->prepare) {
    prepare_tiles(p, kernels, tokens, tile, p.scratch);
    t = {p.scratch, ready_bytes(p.w_type, p.k)};
  }
#if !defined(RLX_ISA_avx512_bf16)
  if (kernels.widen) {
    const auto count = static_cast<int>(tokens.end - tokens.begin);
    widen_tokens({t.first, t.stride, p.k, count, count, p.scratch});
    t = {p.scratch, p.k * 4};
  }
#endif
  return t;
}

/// Few tokens: the packed panels are decoded in registers and stream from memory once.
void stream_panels(const Product& p, const Kernels& kernels, const MatmulShare& share, std::int64_t ahead) {
  const int live = static_cast<int>(p.x.count), tokens = kernel_tokens(live, kDirectTokens);
  const Tokens x = prepare(p, kernels, {0, live}, kDirectTokens);
  const std::int64_t bytes = panel_bytes(p.w_type, p.k);
  alignas(64) float c[2 * kDirectPanels * kDirectTokens * kLanes];
  for (std::int64_t panel = share.panel_begin; panel < share.panel_end; panel += kDirectPanels) {
    const int panels = static_cast<int>(min64(kDirectPanels, share.panel_end - panel));
    for (int i = 0; i < p.weights; ++i) {
      Tile t{};
      t.w = p.w[i] + panel * bytes, t.w_stride = bytes;
      t.x = x.first, t.x_stride = x.stride, t.live = live;
      t.k = p.k, t.first = true, t.panels = panels, t.ahead_bytes = ahead;
      t.c = c + i * panels * tokens * kLanes;
      kernels.product->direct[tokens](t);
    }
    kFinish[static_cast<int>(p.act)](p, {panel, 0, panels, tokens, live, c});
  }
}

// Of this thread, by type.
thread_local ReadingChoice reading_choices[static_cast<int>(DType::xq8)];  // the last dtype is no weight's
// Less is in the caches, or over before the clock can tell.
constexpr std::int64_t kLeastTimed = 16 << 10;

void run_direct(const Product& p, const Kernels& kernels, const MatmulShare& share) {
  ReadingChoice& choice = reading_choices[static_cast<int>(p.w_type)];
  const std::int64_t bytes =
      (share.panel_end - share.panel_begin) * panel_bytes(p.w_type, p.k) * p.weights;
  const bool timed = p.x.count == 1 && kernels.product->prepare && !choice.done() && bytes >= kLeastTimed;
  const std::uint64_t start = timed ? __rdtsc() : 0;
  stream_panels(p, kernels, share, timed ? choice.next() : choice.best());
  if (timed) choice.record(static_cast<float>(__rdtsc() - start) / static_cast<float>(bytes));
}

/// A chunk of tokens and a few panels.
struct Sweep {
  const Tokens& x;
  std::int64_t chunk, count;  ///< first token and number
  std::int64_t panel;
  int panels;
  std::int64_t next;  ///< the panel that this worker is likely to sweep next; may lie beyond the last one
};

/// A part of k of the panels of one weight.
struct SweptPanels {
  const std::byte* w;
  std::int64_t stride;  ///< between panels
  std::int64_t first, k;
  int weight;
  // What is read from memory after this, of each panel; 0 bytes: nothing.
  const std::byte* next;
  std::int64_t next_stride, next_bytes;
};

/// Asks for the lines of `bytes` that fall to tile `tile` of `tiles`.
void prefetch_part(const SweptPanels& p, int panels, std::int64_t tile, std::int64_t tiles) {
  const std::int64_t lines = p.next_bytes / kLineBytes;
  for (std::int64_t line = lines * tile / tiles; line < lines * (tile + 1) / tiles; ++line)
    for (int r = 0; r < panels; ++r)
      _mm_prefetch(reinterpret_cast<const char*>(p.next + r * p.next_stride + line * kLineBytes), _MM_HINT_T1);
}

/// The part of `depth` k that is read after k columns from `first` on of weight i: of the next weight, the next part of
/// the first one, or the first part of the next panels.
void find_next(const Product& p, const Sweep& at, std::int64_t depth, SweptPanels& panels) {
  const std::int64_t bytes = panel_bytes(p.w_type, p.k);
  const bool other = panels.weight + 1 < p.weights, last = !other && panels.first + panels.k >= p.k;
  const std::int64_t from = other ? panels.first : last ? 0 : panels.first + panels.k, to = min64(from + depth, p.k);
  const std::int64_t panel = last ? at.next : at.panel;
  if (panel + at.panels > panel_count(p.n)) return;
  panels.next = p.w[other ? panels.weight + 1 : 0] + panel * bytes + panel_bytes(p.w_type, from);
  panels.next_stride = bytes;
  panels.next_bytes = panel_bytes(p.w_type, to) - panel_bytes(p.w_type, from);
}

/// All tokens times those panels, in tiles; the last part of the last weight finishes them.
void sweep_tokens(const Product& p, const Kernels& kernels, const Sweep& at, const SweptPanels& panels, float* sums) {
  const std::int64_t x_bytes = p.x_type == DType::f32 || kernels.widen ? 4 : 2;
  const bool int8 = p.x_type == DType::xq8;
  const bool finishes = panels.first + panels.k >= p.k && panels.weight == p.weights - 1;
  const int most = kernels.tiles->tokens;
  Tile t{};
  t.w = panels.w, t.w_stride = panels.stride, t.x_stride = at.x.stride;
  t.k = panels.k, t.first = panels.first == 0;
  for (std::int64_t m = 0; m < at.count; m += most) {
    t.live = static_cast<int>(min64(most, at.count - m));
    const int tokens = kernel_tokens(t.live, most);
    t.x = at.x.first + m * t.x_stride +
          (int8 ? tokens * ready_bytes(p.w_type, panels.first) : panels.first * x_bytes);
    float* const c = sums + m * p.weights * at.panels * kLanes;
    t.c = c + panels.weight * at.panels * tokens * kLanes;
    const TileSums done{at.panel, at.chunk + m, at.panels, tokens, t.live, c};
    if (finishes) prefetch_result(p, done);
    const std::int64_t turn = m / most;
    const bool unpacked = kernels.product->unpack;
    // Panels that tiles read where they lie: the first tiles ask for one each, a line a step.
    const bool asks = !unpacked && turn < at.panels && panels.next_bytes > 0;
    t.ahead = asks ? panels.next + turn * panels.next_stride : nullptr;
    kernels.tiles->tile[at.panels - 1][tokens](t);
    if (unpacked) prefetch_part(panels, at.panels, turn, (at.count + most - 1) / most);
    if (finishes) kFinish[static_cast<int>(p.act)](p, done);
  }
}

// Up to so many tokens a product runs at the speed of memory.
constexpr std::int64_t kFewTokens = 32;

/// Many tokens: the panels are unpacked, a part of k at a time, and the tokens sweep over them; gate and up one after
/// the other, since one pair of unpacked panels fills the L1 cache.
void sweep_panels(const Product& p, const Kernels& kernels, const Sweep& at) {
  const MatmulScratch sizes = matmul_scratch(p.x_type, p.w_type, p.k, p.weights);
  std::byte* const unpacked = p.scratch + sizes.tokens;
  auto* const sums = reinterpret_cast<float*>(unpacked + sizes.panels);
  const UnpackFn unpack = kernels.product->unpack;
  const std::int64_t bytes = panel_bytes(p.w_type, p.k), slot = sizes.panels / kTilePanels;
  // Floats that few tokens read where they lie come from memory either way: the whole k at once.
  const bool few = !unpack && at.count <= kFewTokens;
  const std::int64_t depth = few ? p.k : p.x_type == DType::xq8 ? kIntDepth : kFloatDepth;
  for (std::int64_t first = 0; first == 0 || first < p.k; first += depth)
    for (int i = 0; i < p.weights; ++i) {
      const std::byte* const packed = p.w[i] + at.panel * bytes;
      const std::int64_t k = min64(depth, p.k - first);
      for (int r = 0; unpack && r < at.panels; ++r) unpack(packed + r * bytes, first, k, unpacked + r * slot);
      const std::byte* const w = unpack ? unpacked : packed + panel_bytes(p.w_type, first);
      SweptPanels panels{w, unpack ? slot : bytes, first, k, i, nullptr, 0, 0};
      find_next(p, at, depth, panels);
      sweep_tokens(p, kernels, at, panels, sums);
    }
}

/// Tokens of a chunk, at most `most`, so that chunks are about equal: the panels come from memory for each, and a last
/// one of 5 tokens (ViT: 197) would wait for them.
std::int64_t even_chunk(std::int64_t tokens, std::int64_t most, std::int64_t tile) {
  const std::int64_t whole = most / tile * tile, chunks = (tokens + whole - 1) / whole;
  return ((tokens + chunks - 1) / chunks + tile - 1) / tile * tile;
}

/// A part of a product.
struct Part {
  Range panels, tokens;
};

/// A part whose tokens are ready: x begins with the first one. next: the panel after the last one.
void sweep_all(const Product& p, const Kernels& kernels, const Tokens& x, const Part& part, std::int64_t next) {
  const auto [begin, end] = part.panels;
  for (std::int64_t panel = begin; panel < end;) {
    const int at_once = kernels.tiles->tile[1][1] && end - panel >= 2 ? 2 : 1;
    const std::int64_t after = panel + at_once < end ? panel + at_once : next;
    sweep_panels(p, kernels, {x, part.tokens.begin, part.tokens.end - part.tokens.begin, panel, at_once, after});
    panel += at_once;
  }
}

void run_tiles(const Product& p, const Kernels& kernels, const Part& part) {
  const int tile = kernels.tiles->tokens;
  const bool ready = !kernels.product->prepare && !kernels.widen;
  const std::int64_t step =
      even_chunk(part.tokens.end - part.tokens.begin, ready ? kSweepTokens : kChunkTokens, tile);
  for (std::int64_t chunk = part.tokens.begin; chunk < part.tokens.end; chunk += step) {
    const Range tokens{chunk, min64(chunk + step, part.tokens.end)};
    sweep_all(p, kernels, prepare(p, kernels, tokens, tile), {part.panels, tokens}, part.panels.begin);
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
  if (is_direct(p, kernels)) return run_direct(p, kernels, share);
  const std::int64_t tile = kernels.tiles->tokens;
  run_tiles(p, kernels,
            {{share.panel_begin, share.panel_end}, {share.tile_begin * tile, min64(share.tile_end * tile, p.x.count)}});
}

void run_product(const Product& p) {
  if (p.x.count == 0) return;
  const Kernels kernels = kernels_for(p.x_type, p.w_type);
  const std::int64_t panels = panel_count(p.n), tiles = tile_count(p, kernels);
  // Rows that a worker has written, and finds in its own caches (FusedSweep).
  // Cut evenly, not at tiles: of ViT's 197 rows two workers would get 96 and 101, and wait 7 % of the time.
  if (p.x.count >= kTerritoryRows * p.threads)
    return run_tiles(p, kernels,
                     {{0, panels}, {p.x.count * p.thread / p.threads, p.x.count * (p.thread + 1) / p.threads}});
  run_share(p, kernels, matmul_share(panels, tiles, p.thread, p.threads));
}

/// Few tokens: every worker has made all rows, and streams its own panels of all products.
void stream_fused(const FusedRun& run, const Rows& x) {
  const std::int64_t thread = run.a.thread, threads = run.a.threads;
  const Range mine{run.panels * thread / threads, run.panels * (thread + 1) / threads};
  std::int64_t before = 0;  // panels of the products before this one
  for (int i = 0; i < run.op.products(); ++i) {
    Product p = run.parts[i];
    p.x = x;
    const std::int64_t begin = mine.begin > before ? mine.begin - before : 0,
                       end = min64(mine.end - before, panel_count(p.n));
    if (begin < end) run_panels(p, begin, end);
    before += panel_count(p.n);
  }
}

/// Many tokens: units of two panels and a chunk of tokens. Beyond kFewTokens workers take the next unit from a counter,
/// so that none waits for one that its core's other users slow down; fewer rows run at the speed of memory, where every
/// worker's own run of panels is faster (kernels.md, 1.4). Rows are cut into territories, as even as they go, with a
/// counter each: a worker begins with its own, so that it reads rows that it has written and that lie in its caches,
/// and then helps the others.
constexpr std::int64_t kUnitsPerWorker = 8;
// Weights that every territory may unpack again. Larger ones are those of language models, where it costs 2 to 3 % of a
// prompt of 512 (1B q8_0, two threads); those of BERT-base have 2.4 million.
constexpr std::int64_t kUnpackedTwice = std::int64_t{3} << 20;

class FusedSweep {
 public:
  FusedSweep(const FusedRun& run, std::int64_t rows) : run_(run), rows_(rows) {
    bool large = false;
    for (int i = 0; i < run.op.products(); ++i) {
      const Product& p = run.parts[i];
      pairs_ += pairs_of(p);
      large = large || (kernels_for(p.x_type, p.w_type).product->unpack && p.n * p.k > kUnpackedTwice);
    }
    const std::int64_t threads = run.a.threads, most = min64(threads, kMostTerritories);
    territories_ = large ? 1 : min64(rows / kTerritoryRows, most);
    if (territories_ < 1) territories_ = 1;
    workers_ = (threads + territories_ - 1) / territories_;
    const std::int64_t size = (steps() + territories_ - 1) / territories_ * kMaxTileTokens;  // of the largest
    const std::int64_t wanted = (kUnitsPerWorker * workers_ + pairs_ - 1) / pairs_;
    const std::int64_t tokens = size / wanted > kChunkTokens ? size / wanted : kChunkTokens;
    chunk_ = even_chunk(size, tokens < kSweepTokens ? tokens : kSweepTokens, kMaxTileTokens);
    chunks_ = (size + chunk_ - 1) / chunk_;
  }

  /// ready: see fused_ready; null where a product makes its tokens ready for itself.
  void run(const Rows& x, const std::byte* const (&ready)[3]) {
    const std::int64_t thread = run_.a.thread, threads = run_.a.threads, units = pairs_ * chunks_;
    if (rows_ <= kFewTokens) {
      for (std::int64_t i = units * thread / threads; i < units * (thread + 1) / threads; ++i)
        unit(i, territory(0), x, ready);
      return;
    }
    for (std::int64_t t = 0; t < territories_; ++t) {
      const std::int64_t at = (thread * territories_ / threads + t) % territories_;
      for (std::int64_t i = take(at); i < units; i = take(at)) unit(i, territory(at), x, ready);
    }
  }

 private:
  static std::int64_t pairs_of(const Product& p) { return (panel_count(p.n) + 1) / 2; }
  std::int64_t steps() const { return (rows_ + kMaxTileTokens - 1) / kMaxTileTokens; }
  Range territory(std::int64_t t) const {
    return {steps() * t / territories_ * kMaxTileTokens,
            min64(steps() * (t + 1) / territories_ * kMaxTileTokens, rows_)};
  }
  std::int64_t take(std::int64_t territory) {
    auto* const counter = reinterpret_cast<std::int32_t*>(run_.a.shared + (1 + territory) * kLineBytes);
    return __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
  }
  void unit(std::int64_t index, Range territory, const Rows& x, const std::byte* const (&all_ready)[3]) const {
    const std::int64_t first = territory.begin + index % chunks_ * chunk_;
    if (first >= territory.end) return;
    std::int64_t pair = index / chunks_;
    int i = 0;
    while (pair >= pairs_of(run_.parts[i])) pair -= pairs_of(run_.parts[i++]);
    const std::int64_t panel = pair * 2;
    const std::byte* const ready = all_ready[i];
    Product p = run_.parts[i];
    p.x = x;
    const Kernels kernels = kernels_for(p.x_type, p.w_type);
    const Part part{{panel, min64(panel + 2, panel_count(p.n))}, {first, min64(first + chunk_, territory.end)}};
    if (!ready && (kernels.product->prepare || kernels.widen)) return run_tiles(p, kernels, part);
    const std::int64_t stride = ready ? ready_bytes(p.w_type, p.k) : x.stride;
    const std::int64_t step = (rows_ > kFewTokens ? workers_ + chunks_ - 1 : chunks_) / chunks_;
    sweep_all(p, kernels, {(ready ? ready : x.data) + first * stride, stride}, part, panel + 2 * step);
  }

  const FusedRun& run_;
  std::int64_t rows_, pairs_ = 0, territories_, workers_, chunk_, chunks_;  // workers_, chunks_: of a territory
};

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
  const Product& first = run.parts[0];
  const std::int64_t count = first.x.count;
  if (count == 0) return;
  const Kernels kernels = kernels_for(first.x_type, first.w_type);
  if (count <= kOwnRows || is_direct(first, kernels)) return stream_fused(run, fused_rows(run));
  std::byte* ready[3] = {};
  if (!run.op.prologue() || !kernels.product->prepare)
    return FusedSweep(run, count).run(fused_rows(run), {ready[0], ready[1], ready[2]});
  fused_ready(run, ready);
  const int tile = kernels.tiles->tokens;
  const Rows x = fused_rows(run, tile, [&](const Rows& rows, std::int64_t begin, std::int64_t end) {
    for (int i = 0; i < run.op.products(); ++i) {
      if (i > 0 && ready[i] == ready[i - 1]) continue;
      Product p = run.parts[i];
      p.x = rows;
      std::byte* const to = ready[i] + begin * ready_bytes(p.w_type, p.k);
      prepare_tiles(p, kernels_for(p.x_type, p.w_type), {begin, end}, tile, to);
    }
  });
  FusedSweep(run, count).run(x, {ready[0], ready[1], ready[2]});
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
