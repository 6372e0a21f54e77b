// Convolutions as products that gather their right side tile by tile: [channels of y, k] x [k, places of y], where k
// runs over the group's channels and the taps of the kernel. A tile of 64 places takes 256 of the k at a time into a
// panel that stays in the second-level cache, and every block of output channels passes over it. The chain of sums of
// a value runs over k in order, whatever the tile and the thread.
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
constexpr int kWideVectors = 4;  // 24 accumulators of the 32 registers
#else
constexpr int kWideVectors = 1;  // 12 of the 16
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

/// Writes row k of the panel: what a tap of a channel reads for each place.
void gather_row(const Tile& tile, const float* channel, const std::int64_t (&tap)[3], float* to) {
  const Job& job = tile.job;
  const Phase& phase = tile.phase;
  const std::int64_t o0 = phase.axis[0].offset + tap[0] * phase.axis[0].offset_step,
                     o1 = phase.axis[1].offset + tap[1] * phase.axis[1].offset_step,
                     o2 = phase.axis[2].offset + tap[2] * phase.axis[2].offset_step;
  const std::int64_t step = phase.axis[2].in_step;
  const Range r = inside(o2, step, job.plan.in[2], phase.axis[2].places);
  for (int i = 0; i < tile.runs; ++i) {
    const Run& run = tile.run[i];
    float* out = to + run.begin;
    const std::int64_t a = run.i * phase.axis[0].in_step + o0, b = run.j * phase.axis[1].in_step + o1;
    std::int64_t begin = r.begin - run.k, end = r.end - run.k;
    if (begin < 0) begin = 0;
    if (end > run.count) end = run.count;
    if (a < 0 || a >= job.plan.in[0] || b < 0 || b >= job.plan.in[1] || begin >= end) begin = end = run.count;
    for (std::int64_t p = 0; p < begin; ++p) out[p] = 0.0f;
    if (begin < end) {
      const float* from = channel + a * job.x.strides[2] + b * job.x.strides[3] + run.k * step + o2;
      if (step == 1)
        for (std::int64_t p = begin; p < end; ++p) out[p] = from[p];
      else
        for (std::int64_t p = begin; p < end; ++p) out[p] = from[p * step];
    }
    for (std::int64_t p = end; p < run.count; ++p) out[p] = 0.0f;
  }
}

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

/// Fills the panel and space.where with these k, for whole vectors of places.
void fill_panel(const Tile& tile, Range of_k) {
  const Job& job = tile.job;
  const PhaseAxis(&axis)[3] = tile.phase.axis;
  const std::int64_t depth = of_k.end - of_k.begin;
  if (depth == 0) return;
  const std::int64_t tap = of_k.begin % tile.phase.taps();
  std::int64_t c = of_k.begin / tile.phase.taps();
  std::int64_t t[3] = {tap / (axis[1].taps * axis[2].taps), tap / axis[2].taps % axis[1].taps, tap % axis[2].taps};
  for (std::int64_t d = 0; d < depth; ++d) {
    std::int64_t of_kernel = 0;
    for (int a = 0; a < 3; ++a)
      of_kernel = of_kernel * job.plan.kernel[a] + axis[a].first_tap + t[a] * axis[a].tap_step;
    tile.space.where[d] = c * job.channel_stride + of_kernel;
    float* to = tile.space.panel + d * kTile;
    gather_row(tile, tile.x + c * job.x.strides[1], t, to);
    for (int p = tile.used; p < tile.width(); ++p) to[p] = 0.0f;
    for (int a = 2; a >= 0; --a) {  // the next tap, and after the last one the next channel
      if (++t[a] < axis[a].taps) break;
      t[a] = 0;
      if (a == 0) ++c;
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

/// sums[o][v * 16 ...] += weights of C channels times V vectors of the panel.
template <int C, int V>
void multiply(const float* const* w, const float* panel, std::int64_t depth, float* sums) {
  const float* rows[C];
  f32x16 acc[C][V];
  RLX_UNROLLED(C, c) {
    rows[c] = w[c];
    RLX_UNROLLED(V, v) { acc[c][v] = load(sums + c * kTile + v * kLanes); });
  });
  for (std::int64_t d = 0; d < depth; ++d) {
    f32x16 right[V];
    RLX_UNROLLED(V, v) { right[v] = load(panel + d * kTile + v * kLanes); });
    RLX_UNROLLED(C, c) {
      const f32x16 left = set1(rows[c][d]);
      RLX_UNROLLED(V, v) { acc[c][v] = fma(left, right[v], acc[c][v]); });
    });
  }
  RLX_UNROLLED(C, c) {
    RLX_UNROLLED(V, v) { store(sums + c * kTile + v * kLanes, acc[c][v]); });
  });
}
#undef RLX_UNROLLED

template <int C>
void multiply_vectors(const float* const* w, const float* panel, std::int64_t depth, int width, float* sums) {
  int p = 0;
  for (; p + kWideVectors * kLanes <= width; p += kWideVectors * kLanes)
    multiply<C, kWideVectors>(w, panel + p, depth, sums + p);
  for (; p < width; p += kLanes) multiply<C, 1>(w, panel + p, depth, sums + p);
}

void multiply_block(const float* const* w, int channels, std::int64_t depth, int width, ConvSpace& space) {
  int c = 0;
  for (; c + 6 <= channels; c += 6) multiply_vectors<6>(w + c, space.panel, depth, width, space.sums + c * kTile);
  for (; c + 2 <= channels; c += 2) multiply_vectors<2>(w + c, space.panel, depth, width, space.sums + c * kTile);
  for (; c < channels; ++c) multiply_vectors<1>(w + c, space.panel, depth, width, space.sums + c * kTile);
}

/// Adds the panel's k to one block of output channels of a tile; its sums begin as the bias and wait in y.
void add_block(const Tile& tile, std::int64_t block, Range k) {
  const Job& job = tile.job;
  ConvSpace& space = tile.space;
  const std::int64_t first = block * kBlock;
  const int channels = static_cast<int>(job.group_out - first < kBlock ? job.group_out - first : kBlock);
  const int used = tile.used, width = tile.width();
  const bool dense = space.places[used - 1] - space.places[0] == used - 1;
  const float* w[kBlock] = {};
  for (int c = 0; c < channels; ++c) {
    const std::int64_t channel = first + c;
    w[c] = weights_of(tile, tile.group * job.group_stride + channel * job.row_stride, k, space.weights + c * kDepth);
    float* sums = space.sums + c * kTile;
    const float* out = tile.y + channel * job.y.strides[1];
    const float start = job.bias == nullptr ? 0.0f : job.bias[tile.group * job.group_out + channel];
    for (int p = 0; p < width; ++p)
      sums[p] = k.begin == 0 || p >= used ? start : dense ? out[space.places[0] + p] : out[space.places[p]];
  }
  multiply_block(w, channels, k.end - k.begin, width, space);
  for (int c = 0; c < channels; ++c) {
    float* out = tile.y + (first + c) * job.y.strides[1];
    const float* sums = space.sums + c * kTile;
    if (dense)
      for (int p = 0; p < used; ++p) out[space.places[0] + p] = sums[p];
    else
      for (int p = 0; p < used; ++p) out[space.places[p]] = sums[p];
  }
}

/// The blocks of output channels `blocks` of tile `index` of a phase.
void do_tile(const Job& job, const Phase& phase, std::int64_t line, std::int64_t index, Range blocks,
             ConvSpace& space) {
  const std::int64_t n = line / job.groups, group = line % job.groups, first = index * kTile,
                     left = phase.places() - first, all = job.group_in * phase.taps();
  Tile tile{job, phase, space, group, job.x.row(n, group * job.group_in, 0, 0),
            job.y.row(n, group * job.group_out, 0, 0)};
  tile.used = static_cast<int>(left < kTile ? left : kTile);
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
    const std::int64_t tiles = (phase.places() + kTile - 1) / kTile, blocks = job.blocks(), all = tiles * blocks;
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

void conv(const Conv& op, const KernelArgs& a) noexcept {
  const WindowPlan plan = window_plan(a.in[0], a.out[0], a.in[1].dims + 2, op.window());
  const Job job = job_of(plan, a, op.groups, op.bias, false);
  if (job.group_in == 1) return depthwise(job, a);
  Phase phase;
  for (int i = 0; i < 3; ++i)
    phase.axis[i] = {plan.out[i], 0, 1, plan.stride[i], plan.kernel[i], 0, 1, -plan.begin[i], plan.dilation[i]};
  const std::int64_t tiles = (phase.places() + kTile - 1) / kTile, lines = job.batch * job.groups;
  UnitWalk walk{part(a, lines * tiles * job.blocks())};
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
  for (std::int64_t i = 0; i < phases; ++i) tiles += (phase_of(i).places() + kTile - 1) / kTile;
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
