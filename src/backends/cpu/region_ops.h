// The instructions of a tile program on sixteen lanes at a time. Tiles are padded to whole vectors: what lies in the
// padding is never stored and never counted.
#pragma once

#include "backends/cpu/norm_run.h"
#include "backends/cpu/simd_math.h"
#include "ops/arithmetic.h"
#include "ops/reduction.h"
#include "ops/region_code.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

/// An operand of an instruction: a tile, or one value for all.
struct TileOperand {
  const float* p;
  bool one;
  RLX_SIMD f32x16 at(std::int64_t i) const { return one ? set1(*p) : load(p + i); }
};

/// An instruction with its operands for m values.
struct TileRun {
  const TileInstr& i;
  TileOperand a, b, c;
  float* y;
  std::int64_t m;
};

template <typename F>
RLX_SIMD void each_vector(const TileRun& r, F f) {
  for (std::int64_t i = 0; i < r.m; i += 16) store(r.y + i, f(i));
}

/// y = f(a) by the scalar library function.
template <typename F>
RLX_SIMD void each_value(const TileRun& r, F f) {
  each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) {
    alignas(64) float t[16];
    store(t, r.a.at(i));
    for (float& v : t) v = f(v);
    return load(t);
  });
}

RLX_SIMD f32x16 min_nan(f32x16 a, f32x16 b) { return select(is_nan(a), a, min(a, b)); }
RLX_SIMD f32x16 activate_by(Act act, f32x16 x) {
  switch (act) {
    case Act::silu: return silu(x);
    case Act::gelu_tanh: return gelu_tanh(x);
    case Act::gelu: return gelu(x);
    case Act::relu: return relu(x);
    case Act::none: break;
  }
  return x;
}

inline void run_unary(const TileRun& r) {
  switch (static_cast<UnaryFunction>(r.i.fn)) {
#define RLX_VECTOR(name, expression)                                                            \
  case UnaryFunction::name:                                                                     \
    return each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) {                  \
      const f32x16 x = r.a.at(i);                                                               \
      return expression;                                                                        \
    })
#define RLX_SCALAR(name, expression)                                                            \
  case UnaryFunction::name:                                                                     \
    return each_value(r, [](float x) __attribute__((always_inline)) { return expression; })
    RLX_VECTOR(neg, -x);
    RLX_VECTOR(exp, exp(x));
    RLX_VECTOR(sqrt, sqrt(x));
    RLX_VECTOR(rsqrt, set1(1.0f) / sqrt(x));
    RLX_VECTOR(reciprocal, set1(1.0f) / x);
    RLX_VECTOR(abs, abs(x));
    RLX_VECTOR(tanh, tanh(x));
    RLX_VECTOR(erf, erf(x));
    RLX_VECTOR(sigmoid, set1(1.0f) / (set1(1.0f) + exp(zero_f32() - x)));
    RLX_SCALAR(log, __builtin_logf(x));
    RLX_SCALAR(sin, __builtin_sinf(x));
    RLX_SCALAR(cos, __builtin_cosf(x));
    RLX_SCALAR(sign, x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x);
    RLX_SCALAR(floor, __builtin_floorf(x));
    RLX_SCALAR(ceil, __builtin_ceilf(x));
    RLX_SCALAR(round, __builtin_rintf(x));
    RLX_SCALAR(softplus, (x > 0.0f ? x : 0.0f) + __builtin_log1pf(__builtin_expf(-__builtin_fabsf(x))) + x * 0.0f);
#undef RLX_VECTOR
#undef RLX_SCALAR
  }
}

RLX_SIMD mask16 holds(Relation relation, f32x16 a, f32x16 b) {
  switch (relation) {
    case Relation::eq: return eq(a, b);
    case Relation::lt: return lt(a, b);
    case Relation::le: return le(a, b);
    case Relation::gt: return lt(b, a);
    case Relation::ge: return le(b, a);
    case Relation::ne: break;
  }
  return is_nan(a) | is_nan(b) | lt(a, b) | lt(b, a);
}

/// All instructions but loads and reductions.
inline void run_map(const TileRun& r) {
  const f32x16 p = set1(r.i.p), q = set1(r.i.q), one = set1(1.0f);
  const auto act = static_cast<Act>(r.i.fn);
  switch (r.i.op) {
#define RLX_TILE(name, expression) \
  case TileOp::name: return each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) { return expression; })
    RLX_TILE(add, r.a.at(i) + r.b.at(i));
    RLX_TILE(sub, r.a.at(i) - r.b.at(i));
    RLX_TILE(mul, r.a.at(i) * r.b.at(i));
    RLX_TILE(div, r.a.at(i) / r.b.at(i));
    RLX_TILE(maximum, max_nan(r.a.at(i), r.b.at(i)));
    RLX_TILE(minimum, min_nan(r.a.at(i), r.b.at(i)));
    RLX_TILE(compare, select(holds(static_cast<Relation>(r.i.fn), r.a.at(i), r.b.at(i)), one, zero_f32()));
    RLX_TILE(where, select(eq(r.a.at(i), zero_f32()), r.c.at(i), r.b.at(i)));
    RLX_TILE(clamp, min(q, max(p, r.a.at(i))));  // in this order a NaN stays
    RLX_TILE(activation, activate_by(act, r.a.at(i)));
    RLX_TILE(scale, r.a.at(i) * p);
    RLX_TILE(softcap, softcap(r.a.at(i), r.i.p));
    RLX_TILE(scale_affine, r.a.at(i) * r.b.at(i) * (r.c.at(i) + p));
    RLX_TILE(mul_add, r.a.at(i) * r.b.at(i) + r.c.at(i));
    RLX_TILE(act_mul, activate_by(act, r.a.at(i)) * r.b.at(i));
    RLX_TILE(sub_exp, exp(r.a.at(i) - r.b.at(i)));
#undef RLX_TILE
    case TileOp::round:
      if (static_cast<DType>(r.i.fn) == DType::f16)
        return each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) {
          return f16_bits_to_f32(f32_to_f16_bits(r.a.at(i)));
        });
      return each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) {
        return as_f32(shl<16>(f32_to_bf16_bits(r.a.at(i))));
      });
    case TileOp::pow:
      return each_vector(r, [&](std::int64_t i) __attribute__((always_inline)) {
        alignas(64) float t[16], e[16];
        store(t, r.a.at(i));
        store(e, r.b.at(i));
        for (int k = 0; k < 16; ++k) t[k] = __builtin_powf(t[k], e[k]);
        return load(t);
      });
    case TileOp::unary: return run_unary(r);
    case TileOp::load:
    case TileOp::reduce:
    case TileOp::inverse_rms:
    case TileOp::inverse_std: break;
  }
}

RLX_SIMD float reduction_start(Reduction kind) {
  if (kind == Reduction::max) return -__builtin_inff();
  if (kind == Reduction::min) return __builtin_inff();
  return kind == Reduction::prod ? 1.0f : 0.0f;
}
RLX_SIMD f32x16 combine(Reduction kind, f32x16 total, f32x16 x) {
  if (kind == Reduction::max) return max_nan(total, x);
  if (kind == Reduction::min) return min_nan(total, x);
  return kind == Reduction::prod ? total * x : total + x;
}

/// y holds sixteen partial results until finish_reduction; inverse_rms only its first, as norm_run has it.
inline void start_reduction(const TileInstr& i, float* y) {
  store(y, set1(i.op == TileOp::reduce ? reduction_start(static_cast<Reduction>(i.fn)) : 0.0f));
}
inline void add_to_reduction(const TileRun& r) {
  const auto kind = r.i.op == TileOp::reduce ? static_cast<Reduction>(r.i.fn) : Reduction::sum;
  const f32x16 none = set1(reduction_start(kind));
  f32x16 total = load(r.y);
  float squares = r.y[0];
  for (std::int64_t i = 0; i < r.m; i += 16) {
    f32x16 x = r.a.at(i);
    if (r.i.op == TileOp::inverse_std) {
      x = x - r.b.at(i);
      x = x * x;
    }
    if (r.m - i < 16) x = select(first_lanes(static_cast<int>(r.m - i)), x, none);
    if (r.i.op == TileOp::inverse_rms)
      squares += sum(x * x);
    else
      total = combine(kind, total, x);
  }
  if (r.i.op == TileOp::inverse_rms)
    r.y[0] = squares;
  else
    store(r.y, total);
}
inline void finish_reduction(const TileInstr& i, float* y, std::int64_t n) {
  float total = y[0];
  if (i.op == TileOp::inverse_rms) {
    total = inverse_rms(total, n, i.p);
  } else if (i.op == TileOp::inverse_std) {
    total = 1.0f / __builtin_sqrtf(sum(load(y)) / static_cast<float>(n) + i.p);
  } else if (static_cast<Reduction>(i.fn) == Reduction::sum) {
    total = sum(load(y));
  } else if (static_cast<Reduction>(i.fn) == Reduction::mean) {
    total = sum(load(y)) / static_cast<float>(n);
  } else {
    f32x16 v = load(y);
    for (int k = 1; k < 16; ++k) v = combine(static_cast<Reduction>(i.fn), v, set1(y[k]));
    alignas(64) float t[16];
    store(t, v);
    total = t[0];  // lane 0 met all others
  }
  y[0] = total;
}

}  // namespace
}  // namespace rlx::cpu::RLX_ISA_LEVEL
