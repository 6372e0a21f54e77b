// Rotary positions (https://arxiv.org/abs/2104.09864), and in one pass over the rows the norm per
// head of q and k, RoPE and append.
#include "backends/cpu/rope.h"

#include "backends/cpu/kv_write.h"
#include "backends/cpu/norm_run.h"
#include "backends/cpu/table.h"
#include "backends/cpu/work.h"
#include "ops/attention.h"

#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

struct SinCos {
  double sin, cos;
};

// In double, so that an angle of 1e6 keeps its last bit in f32: reduced by multiples of pi/2 whose
// first part has 33 bits (exact products below 2^20), then Taylor polynomials on |r| <= pi/4 with
// errors below 1e-10.
SinCos sin_cos(double angle) noexcept {
  if (!(__builtin_fabs(angle) < 1.6e6)) return {__builtin_sin(angle), __builtin_cos(angle)};
  const double n = __builtin_nearbyint(angle * 0.63661977236758138);
  const double r = angle - n * 0x1.921fb544p0 - n * 0x1.0b4611a626331p-34, z = r * r;
  const double s =
      r + r * z *
              (-1.0 / 6 +
               z * (1.0 / 120 + z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800)))));
  const double c =
      1 + z * (-0.5 + z * (1.0 / 24 +
                           z * (-1.0 / 720 +
                                z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600))))));
  switch (static_cast<int>(n) & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

// cos and sin (times the magnitude) of one row, shared by its heads: rotary_dim / 2 values for
// half, each twice with the sine of the even lane negated for adjacent.
struct Rotation {
  float *cos, *sin;
  std::int64_t rotary_dim;
  RopeStyle style;

  template <typename Op>
  Rotation(const Op& op, std::byte* scratch)
      : cos(reinterpret_cast<float*>(scratch)),
        sin(cos + round_up(op.rotary_dim + 16, 16)),
        rotary_dim(op.rotary_dim),
        style(op.style) {}

  void set(std::int32_t position, const float* inv_freq, float magnitude) noexcept {
    for (std::int64_t i = 0; i < rotary_dim / 2; ++i) {
      // The product is rounded to f32, as the models were trained.
      const float angle = static_cast<float>(position) * inv_freq[i];
      const SinCos t = sin_cos(angle);
      const float c = static_cast<float>(t.cos) * magnitude,
                  s = static_cast<float>(t.sin) * magnitude;
      if (style == RopeStyle::half) {
        cos[i] = c;
        sin[i] = s;
      } else {
        cos[2 * i] = cos[2 * i + 1] = c;
        sin[2 * i] = -s;
        sin[2 * i + 1] = s;
      }
    }
  }
};

RLX_SIMD f32x16 swap_pairs(f32x16 a) {
#if defined(RLX_WIDE)
  return {_mm512_permute_ps(a.v, 0xb1)};
#elif defined(RLX_ISA_avx2)
  return {{_mm256_permute_ps(a.v[0], 0xb1), _mm256_permute_ps(a.v[1], 0xb1)}};
#else
  return {{_mm_shuffle_ps(a.v[0], a.v[0], 0xb1), _mm_shuffle_ps(a.v[1], a.v[1], 0xb1),
           _mm_shuffle_ps(a.v[2], a.v[2], 0xb1), _mm_shuffle_ps(a.v[3], a.v[3], 0xb1)}};
#endif
}

// x, y: one head; y may be x.
void rotate_head(const Rotation& t, const float* x, float* y, std::int64_t head_dim) noexcept {
  const std::int64_t half = t.rotary_dim / 2;
  if (t.style == RopeStyle::half) {
    for (std::int64_t i = 0; i < half; i += 16) {
      const int n = half - i < 16 ? static_cast<int>(half - i) : 16;
      const f32x16 c = load(t.cos + i), s = load(t.sin + i);
      const f32x16 lo = n == 16 ? load(x + i) : load_partial(x + i, n);
      const f32x16 hi = n == 16 ? load(x + half + i) : load_partial(x + half + i, n);
      const f32x16 first = fnma(hi, s, lo * c), second = fma(lo, s, hi * c);
      if (n == 16) {
        store(y + i, first);
        store(y + half + i, second);
      } else {
        store_partial(y + i, first, n);
        store_partial(y + half + i, second, n);
      }
    }
  } else {
    for (std::int64_t i = 0; i < t.rotary_dim; i += 16) {
      const int n = t.rotary_dim - i < 16 ? static_cast<int>(t.rotary_dim - i) : 16;
      const f32x16 v = n == 16 ? load(x + i) : load_partial(x + i, n);
      const f32x16 turned = fma(swap_pairs(v), load(t.sin + i), v * load(t.cos + i));
      if (n == 16)
        store(y + i, turned);
      else
        store_partial(y + i, turned, n);
    }
  }
  if (x != y)
    for (std::int64_t i = t.rotary_dim; i < head_dim; ++i) y[i] = x[i];
}

// x, y: f32 [rows, heads * head_dim]; inv_freq: [rotary_dim / 2]; positions: [rows]
void rope(const Rope& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const auto* inv_freq = static_cast<const float*>(a.in[1].data);
  const auto* positions = static_cast<const std::int32_t*>(a.in[2].data);
  const std::int64_t heads = x.dims[1] / op.head_dim;
  Rotation rotation(op, a.scratch);
  std::int64_t ready = -1;
  const Range mine = part(a, x.dims[0] * heads);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t row = i / heads, head = i % heads;
    if (row != ready) rotation.set(positions[row], inv_freq, op.magnitude);
    ready = row;
    rotate_head(rotation, at<const float>(x, row * x.strides[0]) + head * op.head_dim,
                at<float>(y, row * y.strides[0]) + head * op.head_dim, op.head_dim);
  }
}

// q, q': f32 [rows, heads * head_dim]; k, v: f32 [rows, kv_heads * head_dim]. Threads share the
// heads of all rows, so that a single row is divided too: first a row's query heads, then its key
// heads, each with the value of its number.
void rope_append(const RopeAppend& op, const KernelArgs& a) noexcept {
  const TensorView &cache = a.in[0], &q = a.in[1], &k = a.in[2], &v = a.in[3], &y = a.out[0];
  RowPlaces places(a.in[4], a.in[5], a.in[6], a.in[7]);
  const auto* inv_freq = static_cast<const float*>(a.in[8].data);
  const auto* positions = static_cast<const std::int32_t*>(a.in[9].data);
  const auto* q_norm = op.norm ? static_cast<const float*>(a.in[10].data) : nullptr;
  const auto* k_norm = op.norm ? static_cast<const float*>(a.in[11].data) : nullptr;
  const std::int64_t d = op.head_dim, heads = q.dims[1] / d, kv_heads = cache.dims[0],
                     units = heads + kv_heads;
  Rotation rotation(op, a.scratch);
  auto* const key = rotation.sin + round_up(op.rotary_dim + 16, 16);
  std::int64_t ready = -1;
  const Range mine = part(a, q.dims[0] * units);
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const std::int64_t row = i / units, unit = i % units;
    if (row != ready) rotation.set(positions[row], inv_freq, op.magnitude);
    ready = row;
    if (unit < heads) {
      const auto* from = at<const float>(q, row * q.strides[0]) + unit * d;
      auto* to = at<float>(y, row * y.strides[0]) + unit * d;
      if (op.norm) norm_run(from, q_norm, to, d, op.eps, op.weight_offset);
      rotate_head(rotation, op.norm ? to : from, to, d);
      continue;
    }
    if (!places.seek(row)) continue;
    const std::int64_t head = unit - heads;
    const auto* from = at<const float>(k, row * k.strides[0]) + head * d;
    if (op.norm) norm_run(from, k_norm, key, d, op.eps, op.weight_offset);
    rotate_head(rotation, op.norm ? key : from, key, d);
    append_token(cache, head, places.token(row), places.page_row(places.seq), key,
                 at<const float>(v, row * v.strides[0]) + head * d);
  }
}

constexpr Kernel kTable[] = {
    kernel<Rope, rope>(RLX_ROW_NAME("rope_f32"), Isa::RLX_ISA_LEVEL, accepts_rope, rope_scratch),
    kernel<RopeAppend, rope_append>(RLX_ROW_NAME("rope_append"), Isa::RLX_ISA_LEVEL,
                                    accepts_rope_append, rope_append_scratch),
};

}  // namespace

KernelTable rope_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
