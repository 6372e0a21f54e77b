// Convolutions as products that gather their right side tile by tile: [channels of y, k] x [k, places of y], where k
// runs over the group's channels and the taps of the kernel. A tile of up to 64 places takes 256 of the k at a time
// into a panel that stays in the second-level cache, and every block of output channels passes over it, with its sums
// in y between the panels. The chain of sums of a value runs over k in order, whatever the tile and the thread.
#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
#include "backends/cpu/conv.h"

#include <type_traits>
#include <utility>

#include "backends/cpu/simd.h"
#include "backends/cpu/window_rows.h"
#include "ops/conv.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kTile = 64, kDepth = 256, kBlock = 6;
#if defined(RLX_WIDE)
constexpr int kMostVectors = 4;  // 24 accumulators of the 32 registers
#else
constexpr int kMostVectors = 1;  // 12 of the 16
#endif

/// One axis of a phase: the places of y are first + p * out_step for p in [0, places); tap t of `taps` is tap
/// first_tap + t * tap_step of the kernel and reads x at p * in_step + offset + t * offset_step.
struct PhaseAxis {
  std::int64_t places, out_first, out_step, in_step;
  std::int64_t taps, first_tap, tap_step, offset, offset_step;
};
/// Places of y that all use the same taps. A convolution has one phase, a transposed one has as many as there are
/// remainders by the strides.
struct Phase {
  PhaseAxis axis[3];
  std::int64_t places() const { return axis[0].places * axis[1].places * axis[2].places; }
  std::int64_t taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
  std::int64_t vectors() const { return (places() + kLanes - 1) / kLanes; }
  std::int64_t tiles() const { return (places() + kTile - 1) / kTile; }
  /// Tiles have equally many vectors of places, so that none is left with one, which would multiply at half the rate.
  std::int64_t tile_begin(std::int64_t tile) const {
    const std::int64_t begin = vectors() * tile / tiles() * kLanes;
    return begin < places() ? begin : places();
  }
};

/// A worker's memory.
struct ConvSpace {
  float panel[kDepth * kTile];
  float weights[kBlock * kDepth];
  float sums[kBlock * kTile];
  std::int64_t where[kDepth];   ///< of each k of the panel: its weight, from the first one of the output channel
  std::int64_t places[kTile];   ///< of each place of the tile: its value, from the first one of the output channel
};

/// Places of a tile with the same first two indices.
struct Run {
  std::int64_t i, j, k;
  int begin, count;
};

struct Job {
  WindowPlan plan;
  Volume x, y;
  const TensorView* w;
  const float* bias;
  std::int64_t batch, groups, group_in, group_out;
  /// Of w, in elements: from an output channel, an input channel, a group to the next.
  std::int64_t row_stride, channel_stride, group_stride;
  bool direct;                              ///< the weights of an output channel are f32 and lie in the order of k
  std::int64_t blocks() const { return (group_out + kBlock - 1) / kBlock; }
};

/// Up to 64 places of a phase of one (batch, group).
struct Tile {
  const Job& job;
  const Phase& phase;
  ConvSpace& space;
  std::int64_t group;
  const float* x;  ///< the first channel of the group
  float* y;
  int used = 0, runs = 0;
  Run run[kTile] = {};
  int width() const { return (used + kLanes - 1) / kLanes * kLanes; }
};

/// What one tap reads for the places of a tile, the same for every channel: pieces of rows of x.
struct TapCopies {
  struct Piece {
    std::int64_t from;  ///< from the channel's first value
    int to, count;
  };
  Piece piece[kTile];
  int pieces = 0;
  std::int64_t step;
  bool padded;  ///< whether some places read nothing: 0

  TapCopies(const Tile& tile, const std::int64_t (&tap)[3]) : step(tile.phase.axis[2].in_step) {
    const Job& job = tile.job;
    const PhaseAxis(&axis)[3] = tile.phase.axis;
    const std::int64_t o0 = axis[0].offset + tap[0] * axis[0].offset_step,
                       o1 = axis[1].offset + tap[1] * axis[1].offset_step,
                       o2 = axis[2].offset + tap[2] * axis[2].offset_step;
    const Range r = inside(o2, step, job.plan.in[2], axis[2].places);
    int covered = 0;
    for (int i = 0; i < tile.runs; ++i) {
      const Run& run = tile.run[i];
      const std::int64_t a = run.i * axis[0].in_step + o0, b = run.j * axis[1].in_step + o1;
      std::int64_t begin = r.begin - run.k, end = r.end - run.k;
      if (begin < 0) begin = 0;
      if (end > run.count) end = run.count;
      if (a < 0 || a >= job.plan.in[0] || b < 0 || b >= job.plan.in[1] || begin >= end) continue;
      piece[pieces++] = {a * job.x.strides[2] + b * job.x.strides[3] + (run.k + begin) * step + o2,
                         run.begin + static_cast<int>(begin), static_cast<int>(end - begin)};
      covered += static_cast<int>(end - begin);
    }
    padded = covered < tile.width();
  }

  /// Writes a row of the panel of so many places.
  void run(const float* channel, int width, float* to) const {
    for (int p = 0; padded && p < width; p += kLanes) store(to + p, zero_f32());
    for (int i = 0; i < pieces; ++i) {
      const float* from = channel + piece[i].from;
      float* out = to + piece[i].to;
      int p = 0;
      for (; p + kLanes <= piece[i].count; p += kLanes) store(out + p, load_step(from + p * step, step, kLanes));
#if defined(RLX_WIDE)
      if (const int rest = piece[i].count - p; rest > 0)
        store_partial(out + p, load_step(from + p * step, step, rest), rest);
#else
      for (; p < piece[i].count; ++p) out[p] = from[p * step];
#endif
    }
  }
};

/// Fills the runs and the places of the tile from place `first` of its phase.
void make_runs(Tile& tile, std::int64_t first) {
  const Job& job = tile.job;
  const PhaseAxis(&axis)[3] = tile.phase.axis;
  int done = 0;
  while (done < tile.used) {
    const std::int64_t flat = first + done, k = flat % axis[2].places, line = flat / axis[2].places;
    const std::int64_t i = line / axis[1].places, j = line % axis[1].places;
    std::int64_t length = axis[2].places - k;
    if (length > tile.used - done) length = tile.used - done;
    tile.run[tile.runs++] = {i, j, k, done, static_cast<int>(length)};
    const std::int64_t base = (axis[0].out_first + i * axis[0].out_step) * job.y.strides[2] +
                              (axis[1].out_first + j * axis[1].out_step) * job.y.strides[3] + axis[2].out_first;
    for (std::int64_t p = 0; p < length; ++p) tile.space.places[done + p] = base + (k + p) * axis[2].out_step;
    done += static_cast<int>(length);
  }
}

/// Fills the panel and space.where with these k, for whole vectors of places: tap by tap, whose channels lie `taps`
/// rows from one another.
void fill_panel(const Tile& tile, Range of_k) {
  const Job& job = tile.job;
  const PhaseAxis(&axis)[3] = tile.phase.axis;
  const std::int64_t depth = of_k.end - of_k.begin, taps = tile.phase.taps();
  for (std::int64_t first = 0; first < depth && first < taps; ++first) {
    const std::int64_t tap = (of_k.begin + first) % taps;
    const std::int64_t t[3] = {tap / (axis[1].taps * axis[2].taps), tap / axis[2].taps % axis[1].taps,
                               tap % axis[2].taps};
    std::int64_t of_kernel = 0;
    for (int a = 0; a < 3; ++a)
      of_kernel = of_kernel * job.plan.kernel[a] + axis[a].first_tap + t[a] * axis[a].tap_step;
    const TapCopies copies(tile, t);
    std::int64_t c = (of_k.begin + first) / taps;
    for (std::int64_t d = first; d < depth; d += taps, ++c) {
      tile.space.where[d] = c * job.channel_stride + of_kernel;
      copies.run(tile.x + c * job.x.strides[1], tile.width(), tile.space.panel + d * kTile);
    }
  }
}

template <typename T, f32x16 (*Load)(const T*)>
void widen(const T* from, const std::int64_t* where, std::int64_t depth, float* to) {
  for (std::int64_t d = 0; d < depth; d += kLanes) {
    const int lanes = static_cast<int>(depth - d < kLanes ? depth - d : kLanes);
    alignas(64) T t[kLanes] = {};
    for (int i = 0; i < lanes; ++i) t[i] = from[where[d + i]];
    store_partial(to + d, Load(t), lanes);
  }
}
f32x16 as_it_is(const float* p) { return load(p); }
f32x16 from_f16(const std::uint16_t* p) { return load_f16(p); }
f32x16 from_bf16(const std::uint16_t* p) { return load_bf16(p); }

/// The weights of the panel's k, from element `first` of w.
const float* weights_of(const Tile& tile, std::int64_t first, Range k, float* to) {
  const Job& job = tile.job;
  const ConvSpace& space = tile.space;
  const std::int64_t depth = k.end - k.begin;
  if (job.direct) return static_cast<const float*>(job.w->data) + first + k.begin;
  const auto* half = static_cast<const std::uint16_t*>(job.w->data) + first;
  if (job.w->dtype == DType::f32)
    widen<float, as_it_is>(static_cast<const float*>(job.w->data) + first, space.where, depth, to);
  else if (job.w->dtype == DType::f16)
    widen<std::uint16_t, from_f16>(half, space.where, depth, to);
  else
    widen<std::uint16_t, from_bf16>(half, space.where, depth, to);
  return to;
}

template <typename F, int... I>
RLX_SIMD void unrolled_over(F f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}
/// f(0), f(1), ... f(N - 1), each with a constant: a loop would keep the accumulators in memory.
template <int N, typename F>
RLX_SIMD void unrolled(F f) {
  unrolled_over(f, std::make_integer_sequence<int, N>{});
}
#define RLX_UNROLLED(n, i) unrolled<n>([&](auto i) __attribute__((always_inline))

/// A block of output channels over the panel.
struct BlockProduct {
  const float* w[kBlock];  ///< of each channel, the weights of the panel's k
  float* out[kBlock];      ///< of each channel, the sums of the tile's places
  float start[kBlock];     ///< what they begin with
  bool first;              ///< whether they begin here
  const float* panel;
  std::int64_t depth;
  int used;  ///< places
};

/// C channels from `c` on times V vectors from place p on; the last of the tile may be partial.
template <int C, int V>
void multiply(const BlockProduct& b, int c, int p) {
  const float* rows[C];
  f32x16 acc[C][V];
  const int last = b.used - p - (V - 1) * kLanes, lanes = last < kLanes ? last : kLanes;
  RLX_UNROLLED(C, i) {
    rows[i] = b.w[c + i];
    const float* sums = b.out[c + i] + p;
    RLX_UNROLLED(V, v) {
      if (b.first)
        acc[i][v] = set1(b.start[c + i]);
      else
        acc[i][v] = v < V - 1 || lanes == kLanes ? load(sums + v * kLanes) : load_partial(sums + v * kLanes, lanes);
    });
  });
  for (std::int64_t d = 0; d < b.depth; ++d) {
    f32x16 right[V];
    RLX_UNROLLED(V, v) { right[v] = load(b.panel + d * kTile + p + v * kLanes); });
    RLX_UNROLLED(C, i) {
      const f32x16 left = set1(rows[i][d]);
      RLX_UNROLLED(V, v) { acc[i][v] = fma(left, right[v], acc[i][v]); });
    });
  }
  RLX_UNROLLED(C, i) {
    float* sums = b.out[c + i] + p;
    RLX_UNROLLED(V, v) {
      if (v < V - 1 || lanes == kLanes)
        store(sums + v * kLanes, acc[i][v]);
      else
        store_partial(sums + v * kLanes, acc[i][v], lanes);
    });
  });
}
#undef RLX_UNROLLED

template <int C>
void multiply_vectors(const BlockProduct& b, int c) {
  const int vectors = (b.used + kLanes - 1) / kLanes;
#if defined(RLX_WIDE)
  constexpr void (*kByVectors[])(const BlockProduct&, int, int) = {multiply<C, 1>, multiply<C, 2>, multiply<C, 3>,
                                                                   multiply<C, 4>};
  static_assert(kMostVectors == 4 && kTile == 4 * kLanes);
  kByVectors[vectors - 1](b, c, 0);
#else
  for (int v = 0; v < vectors; v += kMostVectors) multiply<C, kMostVectors>(b, c, v * kLanes);
#endif
}

void multiply_block(const BlockProduct& b, int channels) {
  int c = 0;
  for (; c + 6 <= channels; c += 6) multiply_vectors<6>(b, c);
  for (; c + 2 <= channels; c += 2) multiply_vectors<2>(b, c);
  for (; c < channels; ++c) multiply_vectors<1>(b, c);
}

/// Asks for n weights of a channel: the block after this one reads them, and rows of this length are too short for the
/// processor to run ahead of.
void prefetch_row(const float* row, std::int64_t n) {
  constexpr std::int64_t line = 64 / sizeof(float);
  for (std::int64_t i = 0; i < n; i += line) _mm_prefetch(reinterpret_cast<const char*>(row + i), _MM_HINT_T0);
}

/// Adds the panel's k to one block of output channels of a tile; its sums begin as the bias and wait in y.
void add_block(const Tile& tile, std::int64_t block, Range k) {
  const Job& job = tile.job;
  ConvSpace& space = tile.space;
  const std::int64_t first = block * kBlock, left = job.group_out - first;
  const int channels = static_cast<int>(left < kBlock ? left : kBlock), used = tile.used;
  const bool dense = space.places[used - 1] - space.places[0] == used - 1;
  BlockProduct b{};
  b.first = k.begin == 0, b.panel = space.panel, b.depth = k.end - k.begin, b.used = used;
  for (int c = 0; c < channels; ++c) {
    const std::int64_t channel = first + c, row = tile.group * job.group_stride + channel * job.row_stride;
    b.w[c] = weights_of(tile, row, k, space.weights + c * kDepth);
    if (job.direct && channel + kBlock < job.group_out)
      prefetch_row(b.w[c] + kBlock * job.row_stride, b.depth);
    b.start[c] = job.bias == nullptr ? 0.0f : job.bias[tile.group * job.group_out + channel];
    float* out = tile.y + channel * job.y.strides[1];
    b.out[c] = dense ? out + space.places[0] : space.sums + c * kTile;
    for (int p = 0; !dense && !b.first && p < used; ++p) b.out[c][p] = out[space.places[p]];
  }
  multiply_block(b, channels);
  for (int c = 0; !dense && c < channels; ++c) {
    float* out = tile.y + (first + c) * job.y.strides[1];
    for (int p = 0; p < used; ++p) out[space.places[p]] = b.out[c][p];
  }
}

/// The blocks of output channels `blocks` of tile `index` of a phase.
void do_tile(const Job& job, const Phase& phase, std::int64_t line, std::int64_t index, Range blocks,
             ConvSpace& space) {
  const std::int64_t n = line / job.groups, group = line % job.groups, first = phase.tile_begin(index),
                     all = job.group_in * phase.taps();
  Tile tile{job, phase, space, group, job.x.row(n, group * job.group_in, 0, 0),
            job.y.row(n, group * job.group_out, 0, 0)};
  tile.used = static_cast<int>(phase.tile_begin(index + 1) - first);
  make_runs(tile, first);
  std::int64_t from = 0;
  do {  // also once without any k: the bias alone
    const Range k{from, all - from < kDepth ? all : from + kDepth};
    fill_panel(tile, k);
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) add_block(tile, b, k);
    from = k.end;
  } while (from < all);
}

/// Units of work are blocks of output channels of tiles; consecutive ones share their panel.
struct UnitWalk {
  Range mine;
  std::int64_t passed = 0;

  void phase(const Job& job, const Phase& phase, std::int64_t line, ConvSpace& space) {
    const std::int64_t blocks = job.blocks(), all = phase.tiles() * blocks;
    const std::int64_t begin = mine.begin > passed ? mine.begin - passed : 0,
                       end = mine.end - passed < all ? mine.end - passed : all;
    passed += all;
    for (std::int64_t u = begin; u < end;) {
      const std::int64_t tile = u / blocks, next = (tile + 1) * blocks < end ? (tile + 1) * blocks : end;
      do_tile(job, phase, line, tile, {u - tile * blocks, next - tile * blocks}, space);
      u = next;
    }
  }
};

Job job_of(const WindowPlan& plan, const KernelArgs& a, std::int64_t groups, bool bias, bool transposed) {
  const TensorView &x = a.in[0], &w = a.in[1], &y = a.out[0];
  Job job{plan, Volume(x), Volume(y), &w, bias ? static_cast<const float*>(a.in[2].data) : nullptr,
          x.dims[0], groups, x.dims[1] / groups, y.dims[1] / groups, 0, 0, 0, false};
  const std::int64_t outer = plan.taps() * w.dims[1];
  job.row_stride = transposed ? plan.taps() : outer;
  job.channel_stride = transposed ? outer : plan.taps();
  job.group_stride = transposed ? job.group_in * outer : job.group_out * outer;
  job.direct = !transposed && w.dtype == DType::f32;
  return job;
}

// Each output channel reads one input channel: rows of y, tap by tap.
void depthwise(const Job& job, const KernelArgs& a) {
  const WindowPlan& plan = job.plan;
  const std::int64_t channels = job.groups * job.group_out, planes = plan.out[0] * plan.out[1];
  const Range mine = part(a, job.batch * channels * planes);
  for (std::int64_t r = mine.begin; r < mine.end; ++r) {
    const std::int64_t i = r % planes / plan.out[1], j = r % plan.out[1], n = r / planes / channels,
                       o = r / planes % channels;
    float* y = job.y.row(n, o, i, j);
    const float start = job.bias == nullptr ? 0.0f : job.bias[o];
    for (std::int64_t p = 0; p < plan.out[2]; ++p) y[p] = start;
    const std::int64_t at[4] = {n, o / job.group_out, i, j};
    each_tap(plan, job.x, at, [&](std::int64_t tap, const float* x, Range p) {
      const std::int64_t k = o * plan.taps() + tap;
      const auto* half = static_cast<const std::uint16_t*>(job.w->data) + k;
      alignas(64) float weight[kLanes];
      if (job.w->dtype == DType::f32)
        weight[0] = static_cast<const float*>(job.w->data)[k];
      else
        store(weight, job.w->dtype == DType::f16 ? load_f16_partial(half, 1) : load_bf16_partial(half, 1));
      const f32x16 factor = set1(weight[0]);
      update_row(y + p.begin, x, plan.stride[2], p.end - p.begin,
                 [&](f32x16 sum, f32x16 value) { return fma(factor, value, sum); });
    });
  }
}

/// Whether every place of y reads its own place of x, and places follow one another in both.
bool is_pointwise(const Job& job) {
  const WindowPlan& p = job.plan;
  for (int i = 0; i < 3; ++i)
    if (p.kernel[i] != 1 || p.stride[i] != 1 || p.begin[i] != 0 || p.in[i] != p.out[i]) return false;
  const auto follow = [&](const Volume& v) {
    return v.strides[3] == p.in[2] && v.strides[2] == p.in[1] * p.in[2];
  };
  return follow(job.x) && follow(job.y);
}
/// One axis of places instead of three.
void flatten(Job& job) {
  job.plan.in[2] = job.plan.out[2] = job.plan.in[0] * job.plan.in[1] * job.plan.in[2];
  job.plan.in[0] = job.plan.out[0] = job.plan.in[1] = job.plan.out[1] = 1;
}

void conv(const Conv& op, const KernelArgs& a) noexcept {
  const WindowPlan plan = window_plan(a.in[0], a.out[0], a.in[1].dims + 2, op.window());
  Job job = job_of(plan, a, op.groups, op.bias, false);
  if (job.group_in == 1) return depthwise(job, a);
  if (is_pointwise(job)) flatten(job);
  Phase phase;
  for (int i = 0; i < 3; ++i)
    phase.axis[i] = {job.plan.out[i],    0, 1, job.plan.stride[i], job.plan.kernel[i], 0, 1,
                     -job.plan.begin[i], job.plan.dilation[i]};
  const std::int64_t lines = job.batch * job.groups;
  UnitWalk walk{part(a, lines * phase.tiles() * job.blocks())};
  auto& space = *reinterpret_cast<ConvSpace*>(a.scratch);
  for (std::int64_t line = 0; line < lines; ++line) walk.phase(job, phase, line, space);
}

std::int64_t gcd(std::int64_t a, std::int64_t b) {
  while (b != 0) {
    const std::int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/// The places of y whose index has remainder r by the stride. Tap k reaches them from x where
/// (r + begin - k * dilation) is a multiple of the stride: every period-th tap, if any.
PhaseAxis transposed_axis(const WindowPlan& w, int a, std::int64_t r) {
  const std::int64_t stride = w.stride[a], dilation = w.dilation[a], period = stride / gcd(stride, dilation);
  std::int64_t first = 0;
  const std::int64_t places = w.out[a] > r ? (w.out[a] - r + stride - 1) / stride : 0;
  while (first < period && first < w.kernel[a] && (r + w.begin[a] - first * dilation) % stride != 0) ++first;
  const bool none = first == period || first >= w.kernel[a];
  return {places, r, stride, 1, none ? 0 : (w.kernel[a] - first + period - 1) / period, first, period,
          (r + w.begin[a] - first * dilation) / stride, -(period * dilation / stride)};
}

void conv_transposed(const ConvTransposed& op, const KernelArgs& a) noexcept {
  const WindowPlan plan = window_plan(a.in[0], a.out[0], a.in[1].dims + 2, op.window());
  const Job job = job_of(plan, a, op.groups, op.bias, true);
  auto& space = *reinterpret_cast<ConvSpace*>(a.scratch);
  std::int64_t remainders[3];  // those that y has places of
  for (int i = 0; i < 3; ++i) remainders[i] = plan.stride[i] < plan.out[i] ? plan.stride[i] : plan.out[i];
  const std::int64_t lines = job.batch * job.groups, phases = remainders[0] * remainders[1] * remainders[2];
  const auto phase_of = [&](std::int64_t i) {
    const std::int64_t r[3] = {i / (remainders[1] * remainders[2]), i / remainders[2] % remainders[1],
                               i % remainders[2]};
    Phase phase;
    for (int axis = 0; axis < 3; ++axis) phase.axis[axis] = transposed_axis(plan, axis, r[axis]);
    return phase;
  };
  std::int64_t tiles = 0;
  for (std::int64_t i = 0; i < phases; ++i) tiles += phase_of(i).tiles();
  UnitWalk walk{part(a, lines * tiles * job.blocks())};
  for (std::int64_t line = 0; line < lines; ++line)
    for (std::int64_t i = 0; i < phases; ++i) walk.phase(job, phase_of(i), line, space);
}

bool accepts_conv(const KernelQuery& q) {
  const DType w = q.in[1].dtype;
  return q.in[0].dtype == DType::f32 && q.in[1].layout == Layout::plain &&
         (w == DType::f32 || w == DType::f16 || w == DType::bf16);
}
ScratchNeed conv_scratch(const ScratchQuery&) { return {.per_worker = sizeof(ConvSpace)}; }

constexpr Kernel kTable[] = {
    kernel<Conv, conv>(RLX_ROW_NAME("conv_f32"), Isa::RLX_ISA_LEVEL, accepts_conv, conv_scratch),
    kernel<ConvTransposed, conv_transposed>(RLX_ROW_NAME("conv_transposed_f32"), Isa::RLX_ISA_LEVEL, accepts_conv,
                                            conv_scratch),
};

}  // namespace

KernelTable conv_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
