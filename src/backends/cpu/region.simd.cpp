// Runs tile programs: row by row, phase by phase, tile by tile. Everything that a row needs stays in the cache; memory
// is read and written once.
#include "backends/cpu/region.h"

#include "backends/cpu/region_ops.h"
#include "backends/cpu/simd.h"
#include "backends/cpu/work.h"
#include "ops/region.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

std::int64_t bytes_of(DType d) { return d == DType::f32 ? 4 : d == DType::boolean ? 1 : 2; }

f32x16 load_values(DType d, const std::byte* p, int n) {
  if (d == DType::f32) {
    const auto* f = reinterpret_cast<const float*>(p);
    return n == 16 ? load(f) : load_partial(f, n);
  }
  if (d == DType::boolean) {
    alignas(64) float t[16] = {};
    for (int i = 0; i < n; ++i) t[i] = p[i] == std::byte{0} ? 0.0f : 1.0f;
    return load(t);
  }
  const auto* h = reinterpret_cast<const std::uint16_t*>(p);
  if (d == DType::f16) return n == 16 ? load_f16(h) : load_f16_partial(h, n);
  return n == 16 ? load_bf16(h) : load_bf16_partial(h, n);
}
void store_values(DType d, std::byte* p, f32x16 v, int n) {
  if (d == DType::f32) return n == 16 ? store(reinterpret_cast<float*>(p), v)
                                      : store_partial(reinterpret_cast<float*>(p), v, n);
  if (d == DType::boolean) {
    alignas(64) float t[16];
    store(t, v);
    for (int i = 0; i < n; ++i) p[i] = t[i] == 0.0f ? std::byte{0} : std::byte{1};
    return;
  }
  auto* h = reinterpret_cast<std::uint16_t*>(p);
  if (d == DType::f16) return n == 16 ? store_f16(h, v) : store_f16_partial(h, v, n);
  return n == 16 ? store_bf16(h, v) : store_bf16_partial(h, v, n);
}

/// The dims of the region and where each view's axes lie among them; the last axis apart.
struct Domain {
  std::int64_t dims[kViewRank] = {};  // leading ones
  int rank = 0;                       // of the leading dims
  std::int64_t rows = 1, n = 1;
  std::int64_t stride[kRegionInputs + kRegionOutputs][kViewRank] = {};
  std::int64_t step[kRegionInputs + kRegionOutputs] = {};  // along the last axis
  std::int64_t at[kRegionInputs + kRegionOutputs] = {};    // bytes to the row at hand
};

/// Views in order: inputs, then outputs. `dropped`: the view lacks the last axis.
void add_view(Domain& d, const TensorView& v, bool column, bool dropped) {
  const int leading = dropped ? v.rank : v.rank - 1;
  for (int i = 0; i < leading; ++i) {
    std::int64_t& dim = d.dims[d.rank - leading + i];
    if (v.dims[i] != 1) dim = v.dims[i];
  }
  if (!column && v.rank > 0 && v.dims[v.rank - 1] != 1) d.n = v.dims[v.rank - 1];
}
void set_strides(Domain& d, int place, const TensorView& v, bool dropped) {
  const int leading = dropped ? v.rank : v.rank - 1;
  for (int i = 0; i < leading; ++i)
    d.stride[place][d.rank - leading + i] = v.dims[i] == 1 ? 0 : v.strides[i];
  const bool repeats = dropped || v.rank == 0 || v.dims[v.rank - 1] == 1;
  d.step[place] = repeats ? 0 : v.strides[v.rank - 1];
}

Domain domain_of(const RegionCode& code, const KernelArgs& a) {
  Domain d;
  const auto leading = [](const TensorView& v, bool dropped) { return dropped ? v.rank : v.rank - 1; };
  for (int i = 0; i < code.inputs; ++i) d.rank = d.rank > leading(a.in[i], false) ? d.rank : leading(a.in[i], false);
  for (int i = 0; i < code.outputs; ++i) {
    const int own = leading(a.out[i], code.stores[i].dropped);
    d.rank = d.rank > own ? d.rank : own;
  }
  for (int i = 0; i < d.rank; ++i) d.dims[i] = 1;
  for (int i = 0; i < code.inputs; ++i) add_view(d, a.in[i], code.column_input[i], false);
  for (int i = 0; i < code.outputs; ++i) add_view(d, a.out[i], code.stores[i].column, code.stores[i].dropped);
  for (int i = 0; i < d.rank; ++i) d.rows *= d.dims[i];
  for (int i = 0; i < code.inputs; ++i) set_strides(d, i, a.in[i], false);
  for (int i = 0; i < code.outputs; ++i) set_strides(d, code.inputs + i, a.out[i], code.stores[i].dropped);
  return d;
}

/// Element-wise over values that lie alike and in one piece: one long row, which threads can divide.
void flatten(Domain& d, const RegionCode& code, const KernelArgs& a) {
  if (code.reduces || code.columns > 0) return;
  const std::int64_t total = d.rows * d.n;
  for (int i = 0; i < code.inputs + code.outputs; ++i) {
    const TensorView& v = i < code.inputs ? a.in[i] : a.out[i - code.inputs];
    const std::int64_t own = elements(v);
    if (own != 1 && (own != total || !contiguous(v, bytes_of(v.dtype)))) return;
  }
  for (int i = 0; i < code.inputs + code.outputs; ++i) {
    const TensorView& v = i < code.inputs ? a.in[i] : a.out[i - code.inputs];
    d.step[i] = elements(v) == 1 && total != 1 ? 0 : bytes_of(v.dtype);
  }
  d.n = total;
  d.rows = 1;
  d.rank = 0;
}

class RegionRun {
 public:
  RegionRun(const RegionCode& code, const KernelArgs& a) : code_(code), a_(a), d_(domain_of(code, a)) {
    flatten(d_, code, a);
    // Row buffers are sized by the upper bound of the last axis; here they need only hold this one.
    tiles_ = reinterpret_cast<float*>(a.scratch);
    rows_ = tiles_ + std::int64_t{code.tiles} * kTileFloats;
    columns_ = rows_ + code.rows * region_row_floats(d_.n);
    for (int p = 0; p < code.phases; ++p) has_tiles_[p] = false;
    for (int k = 0; k < code.instructions; ++k)
      if (!code.code[k].column || is_reduction(code.code[k])) has_tiles_[code.code[k].phase] = true;
  }

  void run() {
    const std::int64_t tiles = (d_.n + kTileFloats - 1) / kTileFloats;
    if (code_.reduces || code_.columns > 0 || tiles <= 1) {
      const Range mine = part(a_, d_.rows);
      for (std::int64_t r = mine.begin; r < mine.end; ++r) run_row(r, 0, tiles);
      return;
    }
    const Range mine = part(a_, d_.rows * tiles);
    for (std::int64_t u = mine.begin; u < mine.end;) {
      const std::int64_t row = u / tiles, first = u % tiles;
      const std::int64_t last = mine.end - u < tiles - first ? first + mine.end - u : tiles;
      run_row(row, first, last);
      u += last - first;
    }
  }

 private:
  static bool is_reduction(const TileInstr& i) {
    return i.op == TileOp::reduce || i.op == TileOp::inverse_rms || i.op == TileOp::inverse_std;
  }

  void run_row(std::int64_t row, std::int64_t first, std::int64_t last) {
    for (int i = 0; i < code_.inputs + code_.outputs; ++i) {
      std::int64_t rest = row, bytes = 0;
      for (int axis = d_.rank - 1; axis >= 0; --axis) {
        bytes += rest % d_.dims[axis] * d_.stride[i][axis];
        rest /= d_.dims[axis];
      }
      d_.at[i] = bytes;
    }
    for (int phase = 0; phase < code_.phases; ++phase) {
      run_columns(phase);
      if (!has_tiles_[phase]) continue;
      for (std::int64_t t = first; t < last; ++t) run_tile(phase, t * kTileFloats);
      for (int k = 0; k < code_.instructions; ++k)
        if (const TileInstr& i = code_.code[k]; i.phase == phase && is_reduction(i))
          finish_reduction(i, column(i), d_.n);
    }
    for (int o = 0; o < code_.outputs; ++o)
      if (const TileStore& s = code_.stores[o]; s.column)
        store_values(a_.out[o].dtype, output(o), load(column(code_.code[s.value])), 1);
  }

  float* row_buffer(const TileInstr& i) const { return rows_ + i.slot * region_row_floats(d_.n) + first_; }
  float* column(const TileInstr& i) const { return columns_ + i.slot * 16; }
  std::byte* output(int o) const { return static_cast<std::byte*>(a_.out[o].data) + d_.at[code_.inputs + o]; }
  const std::byte* input(int i) const { return static_cast<const std::byte*>(a_.in[i].data) + d_.at[i]; }

  TileOperand operand(int v) const {
    if (v < 0) return {nullptr, true};
    const TileInstr& i = code_.code[v];
    if (i.column) return {column(i), true};
    return {i.whole_row ? row_buffer(i) : at_[v], false};
  }

  void run_columns(int phase) {
    for (int k = 0; k < code_.instructions; ++k) {
      const TileInstr& i = code_.code[k];
      if (i.phase != phase || !i.column) continue;
      if (is_reduction(i))
        start_reduction(i, column(i));
      else if (i.op == TileOp::load)
        store(column(i), load_values(a_.in[i.fn].dtype, input(i.fn), 1));
      else
        run_map({i, operand(i.a), operand(i.b), operand(i.c), column(i), 1});
    }
  }

  // The tile from value `first` of the row.
  void run_tile(int phase, std::int64_t first) {
    first_ = first;
    const std::int64_t m = d_.n - first < kTileFloats ? d_.n - first : kTileFloats;
    for (int k = 0; k < code_.instructions; ++k) {
      const TileInstr& i = code_.code[k];
      if (i.phase != phase || (i.column && !is_reduction(i))) continue;
      if (is_reduction(i)) {
        add_to_reduction({i, operand(i.a), operand(i.b), operand(i.c), column(i), m});
        continue;
      }
      float* own = i.whole_row ? row_buffer(i) : tiles_ + i.slot * kTileFloats;
      if (i.op == TileOp::load) {
        at_[k] = load_tile(i, own, first, m);
        continue;
      }
      at_[k] = own;
      run_map({i, operand(i.a), operand(i.b), operand(i.c), own, m});
    }
    for (int o = 0; o < code_.outputs; ++o)
      if (const TileStore& s = code_.stores[o]; !s.column && code_.code[s.value].phase == phase)
        store_tile(o, at_[s.value], first, m);
  }

  const float* load_tile(const TileInstr& i, float* own, std::int64_t first, std::int64_t m) const {
    const TensorView& v = a_.in[i.fn];
    const std::int64_t step = d_.step[i.fn], size = bytes_of(v.dtype);
    const std::byte* from = input(i.fn) + first * step;
    if (v.dtype == DType::f32 && step == 4 && m % 16 == 0) return reinterpret_cast<const float*>(from);
    if (step == size) {
      for (std::int64_t k = 0; k < m; k += 16)
        store(own + k, load_values(v.dtype, from + k * size, m - k < 16 ? static_cast<int>(m - k) : 16));
    } else if (step == 0) {
      const f32x16 same = load_values(v.dtype, from, 1);
      alignas(64) float t[16];
      store(t, same);
      for (std::int64_t k = 0; k < m; k += 16) store(own + k, set1(t[0]));
    } else {
      alignas(64) float t[16];
      for (std::int64_t k = 0; k < m; ++k) {
        store(t, load_values(v.dtype, from + k * step, 1));
        own[k] = t[0];
      }
      for (std::int64_t k = m; k % 16 != 0; ++k) own[k] = 0.0f;
    }
    return own;
  }

  void store_tile(int o, const float* from, std::int64_t first, std::int64_t m) const {
    const TensorView& v = a_.out[o];
    const std::int64_t step = d_.step[code_.inputs + o], size = bytes_of(v.dtype);
    std::byte* to = output(o) + first * step;
    if (step == size || m == 1) {
      for (std::int64_t k = 0; k < m; k += 16)
        store_values(v.dtype, to + k * size, load(from + k), m - k < 16 ? static_cast<int>(m - k) : 16);
      return;
    }
    for (std::int64_t k = 0; k < m; ++k) store_values(v.dtype, to + k * step, set1(from[k]), 1);
  }

  const RegionCode& code_;
  const KernelArgs& a_;
  Domain d_;
  float *tiles_, *rows_, *columns_;
  std::int64_t first_ = 0;  // of the tile at hand
  bool has_tiles_[kTilePhases + 1];
  const float* at_[kTileCode] = {};
};

void region(const Region& op, const KernelArgs& a) noexcept { RegionRun(code_of_region(&op), a).run(); }

constexpr Kernel kTable[] = {
    kernel<Region, region>(RLX_ROW_NAME("region"), Isa::RLX_ISA_LEVEL, accepts_region, region_scratch),
};

}  // namespace

KernelTable region_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
