// Convolutions of planes with channels last, without im2col: a tile is a few places times a few panels of 16 output
// channels, and reads the window of a place where it lies, tap by tap, through pointers that are worked out once for
// all output channels. The chain of sums of a value begins with its bias and runs over k in order, so its bits depend
// neither on tiles nor on threads.
#include <utility>

#include "backends/cpu/conv.h"
#include "backends/cpu/conv_tile.h"
#include "backends/cpu/simd_math.h"
#include "ops/plane_conv.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

// Places whose windows are worked out together; all panels pass over them while they are in L2.
constexpr std::int64_t kChunk = 224;
// Panels of more bytes are passed over in parts of the pieces: with what is asked for ahead they would leave L2
// (7 x 7 places, 3 x 3 x 512 channels, two threads: 443 GFLOP/s, at once 400).
constexpr std::int64_t kDepthBytes = 256 << 10;

/// How windows lie in x: as `pieces` runs of `length` values, each one tap, or a line of taps where none of them lies
/// in the padding.
struct Windows {
  std::int64_t lines, taps;  ///< of pieces
  std::int64_t length;
  std::int64_t pieces() const { return lines * taps; }
};
Windows windows_of(const PlaneConv& op, std::int64_t channels, bool joined) {
  const bool padded = op.pads_begin.get(1, 0) + op.pads_end.get(1, 0) > 0;
  if (padded || !joined) return {op.kernel[0], op.kernel[1], channels};
  return {op.kernel[0], 1, op.kernel[1] * channels};
}

/// A worker's memory: 0s for what lies in the padding, and pointers for a chunk.
struct Space {
  std::int64_t sums, zeros, windows, results;  // bytes of each part; results twice, for those of the residual
  std::int64_t total() const { return sums + zeros + windows + 2 * results; }
};
Space space_of(const PlaneConv& op, std::int64_t channels) {
  const Windows one = windows_of(op, channels, true), all = windows_of(op, channels, false);
  return {kChunk * kPanels * 64, up64(one.length * std::int64_t{sizeof(Value)}), up64(kChunk * all.pieces() * 8),
          kChunk * 8};
}
ScratchNeed scratch(const ScratchQuery& q) {
  return {.per_worker = space_of(*static_cast<const PlaneConv*>(q.op), q.in[0].dims[3]).total()};
}

struct Job {
  const PlaneConv& op;
  TensorView x, y, residual;
  Windows windows;
  const std::byte* w;
  const float* bias;  ///< null: none
  std::int64_t k, n;
  float* sums;  ///< of a chunk, where pieces are passed over in parts
  const Value* zeros;
  const Value** window;      ///< of a chunk, by tile: [pieces][places]
  float** result;            ///< of each place
  const float** add;         ///< the same of the residual
  std::int64_t places() const { return y.dims[0] * y.dims[1] * y.dims[2]; }
};

/// A part of the pieces of the windows.
struct Depth {
  std::int64_t begin, end;
  bool first, last;
};
/// A tile: R panels from `panel` on, M places.
struct ConvTile {
  const Job& job;
  const Depth& depth;
  const Value* const* window;
  float* const* result;
  const float* const* add;
  float* sums;  ///< [places][panels][16], between parts of the pieces
  std::int64_t panel;
  const std::byte* ahead;  ///< what is needed soon: asked for, a line a step. Null: nothing
};

/// Calls f(panel r, lanes, column) for the panels of a tile; only the last one of y may have less than 16 lanes.
template <int R, typename F>
RLX_SIMD void each_panel(const ConvTile& t, F f) {
  each_index<R>([&](auto r) RLX_INLINE {
    const std::int64_t column = (t.panel + r) * kPanelRows;
    f(r, static_cast<int>(min64(kPanelRows, t.job.n - column)), column);
  });
}

/// Asks for what the end of a tile touches, a place at each step, so that the misses of one tile do not pile up.
template <int R, int M>
struct Results {
  const ConvTile& t;
  RLX_SIMD void ask(std::int64_t m) const {
    if (!t.depth.last) return;
    each_index<R>([&](auto r) RLX_INLINE {
      const std::int64_t column = (t.panel + r) * kPanelRows;
      _mm_prefetch(reinterpret_cast<const char*>(t.result[m] + column), _MM_HINT_T0);
      if (t.job.op.residual) _mm_prefetch(reinterpret_cast<const char*>(t.add[m] + column), _MM_HINT_T0);
    });
  }
};

template <int R, int M>
void multiply(const ConvTile& t) {
  const Job& job = t.job;
  f32x16 f[R][M];
  each_panel<R>(t, [&](auto r, int lanes, std::int64_t column) RLX_INLINE {
    const f32x16 start = job.bias == nullptr ? zero_f32() : load_lanes(job.bias + column, lanes);
    each_index<M>([&](auto m) RLX_INLINE {
      f[r][m] = t.depth.first ? start : load(t.sums + (m * kPanels + r) * kLanes);
    });
  });
  const std::int64_t stride = panel_bytes(kType, job.k);
  const std::byte* const w = job.w + t.panel * stride + panel_bytes(kType, t.depth.begin * job.windows.length);
  Lines lines{w, stride, t.ahead == nullptr ? w : t.ahead};
  const Value* const* window = t.window + t.depth.begin * M;
  const std::int64_t length = job.windows.length;
  const Results<R, M> results{t};
  for (std::int64_t piece = t.depth.begin; piece < t.depth.end; ++piece, window += M) {
    const Value* x[M];
    each_index<M>([&](auto m) RLX_INLINE { x[m] = window[m]; });
    std::int64_t i = 0;
    if (piece == t.depth.begin)
      for (; i < length && i < M * kStep; i += kStep) {
        results.ask(i / kStep);
        add_step<R, M>(x, i, lines, f);
      }
    for (; i < length; i += kStep) add_step<R, M>(x, i, lines, f);
  }
  each_panel<R>(t, [&](auto r, int lanes, std::int64_t column) RLX_INLINE {
    each_index<M>([&](auto m) RLX_INLINE {
      f32x16 v = f[r][m];
      if (!t.depth.last) return store(t.sums + (m * kPanels + r) * kLanes, v);
      if (job.op.residual) v = v + load_lanes(t.add[m] + column, lanes);
      if (job.op.act == Act::relu) v = relu(v);
      store_lanes(t.result[m] + column, v, lanes);
    });
  });
}

using MultiplyFn = void (*)(const ConvTile&);
template <int R, int... M>
constexpr MultiplyFn multiply_of(int places, std::integer_sequence<int, M...>) {
  constexpr MultiplyFn all[] = {multiply<R, M + 1>...};
  return all[places - 1];
}
MultiplyFn multiply_fn(int panels, int places) {
  constexpr auto sizes = std::make_integer_sequence<int, kPlaces>{};
  return panels == 1 ? multiply_of<1>(places, sizes) : multiply_of<kPanels>(places, sizes);
}

/// The activations that take registers of their own, on what the tile has just written.
template <Act A>
void activate_tile(const ConvTile& t, int panels, int places) {
  const std::int64_t begin = t.panel * kPanelRows, end = min64(begin + panels * kPanelRows, t.job.n);
  for (int m = 0; m < places; ++m)
    for (std::int64_t i = begin; i < end; i += kLanes) {
      const int lanes = static_cast<int>(min64(kLanes, end - i));
      store_lanes(t.result[m] + i, activate<A>(load_lanes(t.result[m] + i, lanes)), lanes);
    }
}

void finish(const ConvTile& t, int panels, int places) {
  switch (t.job.op.act) {
    case Act::silu:
      return activate_tile<Act::silu>(t, panels, places);
    case Act::gelu_tanh:
      return activate_tile<Act::gelu_tanh>(t, panels, places);
    case Act::gelu:
      return activate_tile<Act::gelu>(t, panels, places);
    case Act::none:
    case Act::relu:
      return;
  }
}

/// Where the places of a chunk from `first` on read and write.
void find_places(const Job& job, std::int64_t first, const Tiling& tiling) {
  const std::int64_t height = job.y.dims[1], width = job.y.dims[2];
  const auto at_place = [](const TensorView& v, std::int64_t n, std::int64_t i, std::int64_t j) {
    return at<float>(v, n * v.strides[0] + i * v.strides[1] + j * v.strides[2]);
  };
  std::int64_t j = first % width, i = first / width % height, n = first / width / height;
  const std::int64_t up = job.op.pads_begin.get(0, 0), left = job.op.pads_begin.get(1, 0);
  for (std::int64_t tile = 0; tile < tiling.tiles(); ++tile) {
    const std::int64_t begin = tiling.begin(tile), places = tiling.begin(tile + 1) - begin;
    const Value** window = job.window + begin * job.windows.pieces();
    for (std::int64_t m = 0; m < places; ++m) {
      job.result[begin + m] = at_place(job.y, n, i, j);
      if (job.op.residual) job.add[begin + m] = at_place(job.residual, n, i, j);
      const std::int64_t row = i * job.op.strides.get(0, 1) - up, column = j * job.op.strides.get(1, 1) - left;
      const Value** to = window + m;
      for (std::int64_t a = row; a < row + job.windows.lines; ++a)
        for (std::int64_t b = column; b < column + job.windows.taps; ++b, to += places) {
          const bool inside = a >= 0 && a < job.x.dims[1] && b >= 0 && b < job.x.dims[2];
          *to = !inside ? job.zeros
                        : at<Value>(job.x, n * job.x.strides[0] + a * job.x.strides[1] + b * job.x.strides[2]);
        }
      if (++j < width) continue;
      j = 0;
      if (++i < height) continue;
      i = 0;
      ++n;
    }
  }
}

/// Panels from `panel` on and a part of the pieces for all tiles of a chunk.
void do_panels(const Job& job, const Tiling& tiling, std::int64_t panel, int panels, const Depth& depth,
               const std::byte* next) {
  const std::int64_t stride = panel_bytes(kType, job.k);
  for (std::int64_t tile = 0; tile < tiling.tiles(); ++tile) {
    const std::int64_t begin = tiling.begin(tile), after = kPanels - (tiling.tiles() - tile);
    const int places = static_cast<int>(tiling.begin(tile + 1) - begin);
    // The last tiles ask for a panel of the next ones each: what they have read is not needed again.
    const ConvTile t{job, depth, job.window + begin * job.windows.pieces(), job.result + begin, job.add + begin,
                     job.sums + begin * kPanels * kLanes, panel, next && after >= 0 ? next + after * stride : nullptr};
    multiply_fn(panels, places)(t);
    if (depth.last) finish(t, panels, places);
  }
}

/// Panels `panels` for a chunk of places.
void do_chunk(const Job& job, std::int64_t first, std::int64_t count, Range panels) {
  const Tiling tiling{count};
  find_places(job, first, tiling);
  const std::int64_t stride = panel_bytes(kType, job.k), pieces = job.windows.pieces();
  const std::int64_t wanted = (kPanels * stride + kDepthBytes - 1) / kDepthBytes,
                     parts = wanted < pieces ? wanted : pieces;
  for (std::int64_t panel = panels.begin; panel < panels.end; panel += kPanels) {
    const int r = static_cast<int>(min64(kPanels, panels.end - panel));
    for (std::int64_t part = 0; part < parts; ++part) {
      const Depth depth{pieces * part / parts, pieces * (part + 1) / parts, part == 0, part + 1 == parts};
      const std::byte* next = job.w + panel * stride + panel_bytes(kType, depth.end * job.windows.length);
      if (depth.last) next = panel + 2 * kPanels <= panels.end ? job.w + (panel + kPanels) * stride : nullptr;
      do_panels(job, tiling, panel, r, depth, next);
    }
  }
}

/// The part of one worker: groups of panels and tiles of places.
struct Share {
  Range groups, tiles;
};
/// Of the ways to cut that take the least time, the one that reads the least: workers that share places read all of
/// the weights, and those that share panels all of x.
Share share_of(const Job& job, std::int64_t thread, std::int64_t threads) {
  const std::int64_t groups = (panel_count(job.n) + kPanels - 1) / kPanels, tiles = Tiling{job.places()}.tiles();
  const std::int64_t of_w = job.n * job.k, of_x = job.x.dims[0] * job.x.dims[1] * job.x.dims[2] * job.x.dims[3];
  std::int64_t rows = 1, cost = 0, reads = 0;
  for (std::int64_t r = 1; r <= threads; ++r) {
    const std::int64_t columns = threads / r;
    const std::int64_t c = ((groups + columns - 1) / columns) * ((tiles + r - 1) / r), b = r * of_w + columns * of_x;
    if (r > 1 && (c > cost || (c == cost && b >= reads))) continue;
    rows = r, cost = c, reads = b;
  }
  const std::int64_t columns = threads / rows, row = thread / columns, column = thread % columns;
  if (row >= rows) return {{0, 0}, {0, 0}};
  return {{groups * column / columns, groups * (column + 1) / columns}, {tiles * row / rows, tiles * (row + 1) / rows}};
}

void plane_conv(const PlaneConv& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t channels = x.dims[3];
  const bool joined = x.strides[2] == channels * std::int64_t{sizeof(Value)};
  const Space space = space_of(op, channels);
  std::byte* const after_sums = a.scratch + space.sums;
  auto* const zeros = reinterpret_cast<Value*>(after_sums);
  std::byte* const pointers = after_sums + space.zeros + space.windows;
  const Job job{op, x, y, op.residual ? a.in[2 + op.bias] : TensorView{}, windows_of(op, channels, joined),
                static_cast<const std::byte*>(a.in[1].data),
                op.bias ? static_cast<const float*>(a.in[2].data) : nullptr, a.in[1].dims[1],
                a.in[1].dims[0], reinterpret_cast<float*>(a.scratch), zeros,
                reinterpret_cast<const Value**>(after_sums + space.zeros),
                reinterpret_cast<float**>(pointers), reinterpret_cast<const float**>(pointers + space.results)};
  for (std::int64_t i = 0; i < job.windows.length; ++i) zeros[i] = 0;
  const Share share = share_of(job, a.thread, a.threads);
  const Range panels{share.groups.begin * kPanels, min64(share.groups.end * kPanels, panel_count(job.n))};
  if (panels.begin >= panels.end) return;
  const Tiling all{job.places()};
  const std::int64_t begin = share.tiles.begin < share.tiles.end ? all.begin(share.tiles.begin) : 0,
                     end = share.tiles.begin < share.tiles.end ? all.begin(share.tiles.end) : 0;
  const std::int64_t chunks = (end - begin + kChunk - 1) / kChunk;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t first = begin + (end - begin) * c / chunks, next = begin + (end - begin) * (c + 1) / chunks;
    do_chunk(job, first, next - first, panels);
  }
}

bool accepts(const KernelQuery& q) { return accepts_plane_conv(q, kType); }

constexpr Kernel kTable[] = {
#if defined(RLX_ISA_avx512_bf16)
    kernel<PlaneConv, plane_conv>(RLX_ROW_NAME("plane_conv_bf16"), Isa::RLX_ISA_LEVEL, accepts, scratch),
#else
    kernel<PlaneConv, plane_conv>(RLX_ROW_NAME("plane_conv_f32"), Isa::RLX_ISA_LEVEL, accepts, scratch),
#endif
};

}  // namespace

KernelTable plane_conv_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
