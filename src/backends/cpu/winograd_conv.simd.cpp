// Convolutions of 3 x 3 by Winograd's F(2 x 2, 3 x 3) (ops/winograd_conv.h). A worker transforms some tiles of 4 x 4
// places to 16 matrices [tiles, channels], multiplies them with the 16 of the weights, two panels of outputs at a time,
// and turns the sums of a tile into its 2 x 2 places while they are in L2. Each value is the same chain of sums over
// the channels whatever the tiles beside it, so its bits depend neither on chunks nor on threads.
#include <utility>

#include "backends/cpu/conv.h"
#include "backends/cpu/conv_tile.h"
#include "backends/cpu/simd_math.h"
#include "ops/winograd_conv.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kMatrices = 16;
// Bytes of the transformed places of a chunk, which all panels pass over in L2.
constexpr std::int64_t kChunkBytes = 512 << 10, kMostGroups = 4;

std::int64_t chunk_tiles(std::int64_t channels) {
  const std::int64_t bytes = kMatrices * 4 * channels * kPlaces, groups = bytes == 0 ? 1 : kChunkBytes / bytes;
  return kPlaces * (groups < 1 ? 1 : min64(groups, kMostGroups));
}

/// A worker's memory, in floats.
struct Space {
  std::int64_t places, sums, zeros;
  explicit Space(std::int64_t channels)
      : places(up64(kMatrices * chunk_tiles(channels) * channels * 4) / 4),
        sums(kMatrices * chunk_tiles(channels) * kPanels * kLanes),
        zeros(up64(channels * 4) / 4) {}
  std::int64_t bytes() const { return 4 * (places + sums + zeros); }
};
ScratchNeed scratch(const ScratchQuery& q) { return {.per_worker = Space(q.in[0].dims[3]).bytes()}; }

struct Job {
  const WinogradConv& op;
  TensorView x, y, residual;
  const std::byte* u;
  const float* bias;  ///< null: none
  std::int64_t channels, outputs, most;  ///< most: tiles of a chunk
  float *places, *sums, *zeros;

  std::int64_t panels() const { return outputs / kPanelRows; }
  std::int64_t tile_rows() const { return (y.dims[1] + 1) / 2; }
  std::int64_t tile_columns() const { return (y.dims[2] + 1) / 2; }
  std::int64_t tiles() const { return y.dims[0] * tile_rows() * tile_columns(); }
  /// [tiles of the chunk][channels] of a matrix.
  float* matrix(int i) const { return places + i * most * channels; }
  /// [tiles of the chunk][panels][16] of a matrix.
  float* sums_of(int i) const { return sums + i * most * kPanels * kLanes; }
};

/// The upper left place of a tile in y.
struct Corner {
  std::int64_t image, row, column;
};
Corner corner_of(const Job& job, std::int64_t tile) {
  const std::int64_t across = job.tile_columns(), down = job.tile_rows();
  return {tile / across / down, tile / across % down * 2, tile % across * 2};
}

/// B^T d B of 16 channels of a tile, to a line of each matrix.
RLX_SIMD void transform_lanes(const float* const (&d)[4][4], std::int64_t c, int lanes, const Job& job, float* to) {
  f32x16 rows[4][4];
  each_index<4>([&](auto j) RLX_INLINE {
    const f32x16 d0 = load_lanes(d[0][j] + c, lanes), d1 = load_lanes(d[1][j] + c, lanes),
                 d2 = load_lanes(d[2][j] + c, lanes), d3 = load_lanes(d[3][j] + c, lanes);
    rows[0][j] = d0 - d2, rows[1][j] = d1 + d2, rows[2][j] = d2 - d1, rows[3][j] = d1 - d3;
  });
  const std::int64_t stride = job.most * job.channels;
  each_index<4>([&](auto i) RLX_INLINE {
    float* const line = to + i * 4 * stride + c;
    store_lanes(line, rows[i][0] - rows[i][2], lanes);
    store_lanes(line + stride, rows[i][1] + rows[i][2], lanes);
    store_lanes(line + 2 * stride, rows[i][2] - rows[i][1], lanes);
    store_lanes(line + 3 * stride, rows[i][1] - rows[i][3], lanes);
  });
}

void transform_places(const Job& job, std::int64_t first, std::int64_t count) {
  const TensorView& x = job.x;
  const std::int64_t up = job.op.pads_begin.get(0, 0), left = job.op.pads_begin.get(1, 0);
  for (std::int64_t t = 0; t < count; ++t) {
    const Corner corner = corner_of(job, first + t);
    const float* d[4][4];
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t j = 0; j < 4; ++j) {
        const std::int64_t row = corner.row - up + i, column = corner.column - left + j;
        const bool inside = row >= 0 && row < x.dims[1] && column >= 0 && column < x.dims[2];
        const std::int64_t bytes = corner.image * x.strides[0] + row * x.strides[1] + column * x.strides[2];
        d[i][j] = inside ? at<const float>(x, bytes) : job.zeros;
      }
    float* const to = job.places + t * job.channels;
    std::int64_t c = 0;
    for (; c + kLanes <= job.channels; c += kLanes) transform_lanes(d, c, kLanes, job, to);
    if (c < job.channels) transform_lanes(d, c, static_cast<int>(job.channels - c), job, to);
  }
}

/// R panels of one matrix of the weights times M tiles.
struct Group {
  const Job& job;
  const float* x;  ///< [M][channels]
  Lines lines;
  float* sums;  ///< [M][panels][16]
};
template <int R, int M>
void multiply(const Group& g) {
  const float* x[M];
  f32x16 f[R][M];
  each_index<M>([&](auto m) RLX_INLINE {
    x[m] = g.x + m * g.job.channels;
    each_index<R>([&](auto r) RLX_INLINE { f[r][m] = zero_f32(); });
  });
  Lines lines = g.lines;
  for (std::int64_t c = 0; c < g.job.channels; ++c) add_step<R, M>(x, c, lines, f);
  each_index<M>([&](auto m) RLX_INLINE {
    each_index<R>([&](auto r) RLX_INLINE { store(g.sums + (m * kPanels + r) * kLanes, f[r][m]); });
  });
}
using MultiplyFn = void (*)(const Group&);
template <int R, int... M>
constexpr MultiplyFn multiply_of(std::int64_t tiles, std::integer_sequence<int, M...>) {
  constexpr MultiplyFn all[] = {multiply<R, M + 1>...};
  return all[tiles - 1];
}
MultiplyFn multiply_fn(int panels, std::int64_t tiles) {
  constexpr auto sizes = std::make_integer_sequence<int, kPlaces>{};
  return panels == 1 ? multiply_of<1>(tiles, sizes) : multiply_of<kPanels>(tiles, sizes);
}

/// All 16 products of `count` tiles with `panels` panels from `panel` on. `next`: whether to ask for the panels after.
void multiply_all(const Job& job, std::int64_t count, std::int64_t panel, int panels, bool next) {
  const Tiling tiling{count};
  const std::int64_t stride = panel_bytes(DType::f32, job.channels);
  for (int i = 0; i < kMatrices; ++i) {
    const std::byte* const w = job.u + (i * job.panels() + panel) * stride;
    // A panel of the next matrix for each group; after the last matrix one of the first, of the next panels.
    const std::byte* ahead = w + job.panels() * stride;
    if (i + 1 == kMatrices) ahead = next ? job.u + (panel + kPanels) * stride : w;
    for (std::int64_t group = 0; group < tiling.tiles(); ++group) {
      const std::int64_t first = tiling.begin(group), tiles = tiling.begin(group + 1) - first;
      const Lines lines{w, stride, group < panels ? ahead + group * stride : w};
      multiply_fn(panels, tiles)(
          {job, job.matrix(i) + first * job.channels, lines, job.sums_of(i) + first * kPanels * kLanes});
    }
  }
}

/// A^T m A of the sums of a tile and a panel: its 2 x 2 places.
RLX_SIMD void transform_sums(const float* sums, std::int64_t stride, f32x16 (&y)[2][2]) {
  f32x16 rows[2][4];
  each_index<4>([&](auto j) RLX_INLINE {
    const f32x16 m0 = load(sums + j * stride), m1 = load(sums + (4 + j) * stride), m2 = load(sums + (8 + j) * stride),
                 m3 = load(sums + (12 + j) * stride);
    rows[0][j] = m0 + m1 + m2, rows[1][j] = m1 - m2 - m3;
  });
  each_index<2>([&](auto i) RLX_INLINE {
    y[i][0] = rows[i][0] + rows[i][1] + rows[i][2];
    y[i][1] = rows[i][1] - rows[i][2] - rows[i][3];
  });
}

template <Act A>
void finish(const Job& job, std::int64_t first, std::int64_t count, std::int64_t panel, int panels) {
  const std::int64_t stride = job.most * kPanels * kLanes;
  for (std::int64_t t = 0; t < count; ++t) {
    const Corner corner = corner_of(job, first + t);
    for (int r = 0; r < panels; ++r) {
      const std::int64_t column = (panel + r) * kPanelRows;
      f32x16 y[2][2];
      transform_sums(job.sums + (t * kPanels + r) * kLanes, stride, y);
      const f32x16 bias = job.bias == nullptr ? zero_f32() : load(job.bias + column);
      for (std::int64_t i = 0; i < min64(2, job.y.dims[1] - corner.row); ++i)
        for (std::int64_t j = 0; j < min64(2, job.y.dims[2] - corner.column); ++j) {
          const auto place = [&](const TensorView& v) {
            return at<float>(v, corner.image * v.strides[0] + (corner.row + i) * v.strides[1] +
                                    (corner.column + j) * v.strides[2]) +
                   column;
          };
          f32x16 v = y[i][j] + bias;
          if (job.op.residual) v = v + load(place(job.residual));
          store(place(job.y), activate<A>(v));
        }
    }
  }
}
using FinishFn = void (*)(const Job&, std::int64_t, std::int64_t, std::int64_t, int);
constexpr FinishFn kFinish[] = {finish<Act::none>, finish<Act::silu>, finish<Act::gelu_tanh>, finish<Act::gelu>,
                                finish<Act::relu>};

void do_chunk(const Job& job, std::int64_t first, std::int64_t count, Range panels) {
  transform_places(job, first, count);
  for (std::int64_t panel = panels.begin; panel < panels.end; panel += kPanels) {
    const int r = static_cast<int>(min64(kPanels, panels.end - panel));
    multiply_all(job, count, panel, r, panel + 2 * kPanels <= panels.end);
    kFinish[static_cast<int>(job.op.act)](job, first, count, panel, r);
  }
}

/// Workers share tiles, or where there are few of them panels: each transforms all places then.
struct Share {
  Range tiles, panels;
};
Share share_of(const Job& job, std::int64_t thread, std::int64_t threads) {
  const std::int64_t groups = (job.panels() + kPanels - 1) / kPanels, tiles = job.tiles();
  std::int64_t rows = tiles / (2 * kPlaces);
  rows = rows < 1 ? 1 : min64(rows, threads);
  const std::int64_t columns = min64(threads / rows, groups);
  if (thread >= rows * columns) return {{0, 0}, {0, 0}};
  const std::int64_t row = thread / columns, column = thread % columns;
  return {{tiles * row / rows, tiles * (row + 1) / rows},
          {groups * column / columns * kPanels, min64(groups * (column + 1) / columns * kPanels, job.panels())}};
}

void winograd_conv(const WinogradConv& op, const KernelArgs& a) noexcept {
  const std::int64_t channels = a.in[0].dims[3];
  const Space space(channels);
  auto* const memory = reinterpret_cast<float*>(a.scratch);
  const Job job{op,
                a.in[0],
                a.out[0],
                op.residual ? a.in[2 + op.bias] : TensorView{},
                static_cast<const std::byte*>(a.in[1].data),
                op.bias ? static_cast<const float*>(a.in[2].data) : nullptr,
                channels,
                a.out[0].dims[3],
                chunk_tiles(channels),
                memory,
                memory + space.places,
                memory + space.places + space.sums};
  for (std::int64_t i = 0; i < channels; ++i) job.zeros[i] = 0;
  const Share share = share_of(job, a.thread, a.threads);
  const std::int64_t count = share.tiles.end - share.tiles.begin, chunks = (count + job.most - 1) / job.most;
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t first = share.tiles.begin + count * c / chunks,
                       next = share.tiles.begin + count * (c + 1) / chunks;
    do_chunk(job, first, next - first, share.panels);
  }
}

constexpr Kernel kTable[] = {
    kernel<WinogradConv, winograd_conv>(RLX_ROW_NAME("winograd_conv_f32"), Isa::RLX_ISA_LEVEL, accepts_winograd_conv,
                                        scratch),
};

}  // namespace

KernelTable winograd_conv_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
