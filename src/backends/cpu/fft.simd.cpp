// Fourier transforms by Stockham's passes of radix 4, 2 and odd primes up to 31; other lengths by Bluestein's
// convolution. Rows of a block lie beside each other (value k of row r at k * rows + r), so that the first passes have
// whole vectors too; each lane is a row or a value by itself, so the bits of a row do not depend on its neighbours.
#if !defined(RLX_ISA_avx512_bf16)  // that level has nothing here that avx512 lacks
#include "backends/cpu/conv.h"

#include "backends/cpu/simd.h"
#include "backends/cpu/work.h"
#include "ops/fft.h"

namespace rlx::cpu::RLX_ISA_LEVEL {
namespace {

constexpr int kLargestRadix = 31;
constexpr double kPi = 3.14159265358979323846;

/// Complex numbers as two arrays. Passes may read and write 16 floats behind the end of each.
struct Planes {
  float *re, *im;
};
Planes swapped(Planes p) { return {p.im, p.re}; }

/// Rows that are transformed together: as many as keep the planes in the second-level cache.
std::int64_t rows_at_once(std::int64_t padded) {
  const std::int64_t rows = (std::int64_t{1} << 16) / padded;
  return rows < 1 ? 1 : rows > kLanes ? kLanes : rows;
}
std::int64_t padded_length(std::int64_t n) {  // a power of two, at least 2 n
  std::int64_t p = 2;
  while (p < 2 * n) p *= 2;
  return p;
}

/// A transform of n values: directly, or as a convolution of `length` values.
struct Transform {
  std::int64_t n = 1, length = 1;
  bool chirp = false;
  int factors[64] = {}, count = 0;
  Planes roots{};   ///< exp(-2 pi i k / length)
  Planes wave{};    ///< exp(-pi i k^2 / n) for k < n (chirp)
  Planes filter{};  ///< the transform of the conjugate wave, divided by length (chirp)
};

void fill_roots(Planes to, std::int64_t n, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    const double angle = 2 * kPi * static_cast<double>(k) / static_cast<double>(n);
    to.re[k] = static_cast<float>(__builtin_cos(angle));
    to.im[k] = static_cast<float>(-__builtin_sin(angle));
  }
}

/// What a butterfly of n values with stride s reads and writes.
struct Pass {
  std::int64_t n, stride, step;  ///< step: of the roots, length / n
  Planes from, to;
};

/// Lanes begin at q; vectors overlap at the end of a stride of 16 and more. Below 16 the surplus lanes of a store are
/// overwritten by the next ones, which follow in memory.
template <typename F>
RLX_SIMD void each_lane(std::int64_t stride, F f) {
  std::int64_t q = 0;
  for (; q + kLanes <= stride; q += kLanes) f(q);
  if (q < stride) f(stride < kLanes ? 0 : stride - kLanes);
}

struct Value {
  f32x16 re, im;
};
RLX_SIMD Value load_value(Planes p, std::int64_t at) { return {load(p.re + at), load(p.im + at)}; }
RLX_SIMD void store_value(Planes p, std::int64_t at, Value v) {
  store(p.re + at, v.re);
  store(p.im + at, v.im);
}
RLX_SIMD Value operator+(Value a, Value b) { return {a.re + b.re, a.im + b.im}; }
RLX_SIMD Value operator-(Value a, Value b) { return {a.re - b.re, a.im - b.im}; }
RLX_SIMD Value times(Value a, float re, float im) {
  const f32x16 r = set1(re), i = set1(im);
  return {fnma(a.im, i, a.re * r), fma(a.im, r, a.re * i)};
}
RLX_SIMD Value times_minus_i(Value a) { return {a.im, -a.re}; }

void pass_2(const Transform& t, const Pass& p) {
  const std::int64_t m = p.n / 2, s = p.stride;
  for (std::int64_t i = 0; i < m; ++i) {
    const float re = t.roots.re[i * p.step], im = t.roots.im[i * p.step];
    each_lane(s, [&](std::int64_t q) {
      const Value a = load_value(p.from, q + s * i), b = load_value(p.from, q + s * (i + m));
      store_value(p.to, q + s * 2 * i, a + b);
      store_value(p.to, q + s * (2 * i + 1), times(a - b, re, im));
    });
  }
}

void pass_4(const Transform& t, const Pass& p) {
  const std::int64_t m = p.n / 4, s = p.stride;
  const Planes w = t.roots;
  for (std::int64_t i = 0; i < m; ++i) {
    const std::int64_t k = i * p.step;
    each_lane(s, [&](std::int64_t q) {
      const Value a = load_value(p.from, q + s * i), b = load_value(p.from, q + s * (i + m)),
                  c = load_value(p.from, q + s * (i + 2 * m)), d = load_value(p.from, q + s * (i + 3 * m));
      const Value sum = a + c, difference = a - c, other = b + d, turned = times_minus_i(b - d);
      store_value(p.to, q + s * 4 * i, sum + other);
      store_value(p.to, q + s * (4 * i + 1), times(difference + turned, w.re[k], w.im[k]));
      store_value(p.to, q + s * (4 * i + 2), times(sum - other, w.re[2 * k], w.im[2 * k]));
      store_value(p.to, q + s * (4 * i + 3), times(difference - turned, w.re[3 * k], w.im[3 * k]));
    });
  }
}

/// An odd radix: values k and radix - k meet as their sum, with a cosine, and their difference, with a sine.
void pass_odd(const Transform& t, const Pass& p, int radix) {
  const std::int64_t m = p.n / radix, s = p.stride, turn = t.length / radix;
  const int half = radix / 2;
  const Planes w = t.roots;
  for (std::int64_t i = 0; i < m; ++i)
    each_lane(s, [&](std::int64_t q) {
      Value sums[kLargestRadix / 2 + 1], differences[kLargestRadix / 2 + 1], upper[kLargestRadix / 2 + 1];
      const Value first = load_value(p.from, q + s * i);
      Value all = first;
      for (int k = 1; k <= half; ++k) {
        const Value a = load_value(p.from, q + s * (i + m * k)), b = load_value(p.from, q + s * (i + m * (radix - k)));
        sums[k] = a + b;
        differences[k] = a - b;
        all = all + sums[k];
      }
      // Stores go through memory upwards (each_lane): the second half waits.
      store_value(p.to, q + s * radix * i, all);
      for (int j = 1; j <= half; ++j) {
        Value even = first, odd = {zero_f32(), zero_f32()};
        for (int k = 1; k <= half; ++k) {
          const std::int64_t at = j * k % radix * turn;
          const f32x16 cosine = set1(w.re[at]), sine = set1(-w.im[at]);
          even = {fma(sums[k].re, cosine, even.re), fma(sums[k].im, cosine, even.im)};
          odd = {fma(differences[k].re, sine, odd.re), fma(differences[k].im, sine, odd.im)};
        }
        odd = times_minus_i(odd);
        const std::int64_t at = i * j * p.step;
        store_value(p.to, q + s * (radix * i + j), times(even + odd, w.re[at], w.im[at]));
        upper[j] = even - odd;
      }
      for (int j = half; j >= 1; --j) {
        const std::int64_t at = i * (radix - j) * p.step;
        store_value(p.to, q + s * (radix * i + radix - j), times(upper[j], w.re[at], w.im[at]));
      }
    });
}

/// The passes over `rows` rows of t.length values; gives the planes that hold the result.
Planes run_passes(const Transform& t, std::int64_t rows, Planes from, Planes other) {
  std::int64_t n = t.length, stride = rows;
  for (int i = 0; i < t.count; ++i) {
    const int radix = t.factors[i];
    const Pass pass{n, stride, t.length / n, from, other};
    if (radix == 4)
      pass_4(t, pass);
    else if (radix == 2)
      pass_2(t, pass);
    else
      pass_odd(t, pass, radix);
    other = from;
    from = pass.to;
    n /= radix;
    stride *= radix;
  }
  return from;
}

bool factor(Transform& t) {  // false: a prime factor is above the largest radix
  std::int64_t n = t.length;
  t.count = 0;
  const auto divide = [&](int by) {
    for (; n % by == 0; n /= by) t.factors[t.count++] = by;
  };
  divide(4);
  divide(2);
  for (int by = 3; by <= kLargestRadix; by += 2) divide(by);
  return n == 1;
}

/// v[k] *= w[k] for every row; values from `n` to `length` become 0.
void scale_rows(Planes v, Planes w, std::int64_t n, std::int64_t length, std::int64_t rows) {
  for (std::int64_t k = 0; k < length; ++k)
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = k * rows + r;
      const float re = v.re[at], im = v.im[at];
      v.re[at] = k < n ? re * w.re[k] - im * w.im[k] : 0.0f;
      v.im[at] = k < n ? re * w.im[k] + im * w.re[k] : 0.0f;
    }
}

/// The forward transform of `rows` rows in `a`; gives the planes that hold the result, a or b.
Planes transform(const Transform& t, std::int64_t rows, Planes a, Planes b) {
  if (!t.chirp) return run_passes(t, rows, a, b);
  scale_rows(a, t.wave, t.n, t.length, rows);
  Planes product = run_passes(t, rows, a, b);
  scale_rows(product, t.filter, t.length, t.length, rows);
  const Planes rest = product.re == a.re ? b : a;
  const Planes back = swapped(run_passes(t, rows, swapped(product), swapped(rest)));  // the inverse of the passes
  scale_rows(back, t.wave, t.n, t.n, rows);
  return back;
}

/// A worker's memory for transforms of rows of n values.
struct FftSpace {
  std::byte* next;
  Planes take(std::int64_t n) {
    const std::int64_t floats = (n + 2 * kLanes - 1) / kLanes * kLanes;  // 16 floats behind the end
    Planes p{reinterpret_cast<float*>(next), reinterpret_cast<float*>(next) + floats};
    next += 2 * floats * 4;
    return p;
  }
  static std::int64_t bytes(std::int64_t n) {
    const std::int64_t padded = padded_length(n);
    return 8 * (2 * (padded * rows_at_once(padded) + 32) + 4 * (padded + 32));
  }
};

/// What a kernel needs of transforms of t.n values, with the memory for `rows` rows at a time.
struct Worker {
  Transform t;
  Planes a{}, b{};
  std::int64_t rows = 1;

  Worker(std::int64_t n, std::byte* scratch, Planes* more, std::int64_t more_count) {
    FftSpace space{scratch};
    const std::int64_t padded = padded_length(n);
    rows = rows_at_once(padded);
    a = space.take(padded * rows);
    b = space.take(padded * rows);
    t.roots = space.take(padded);
    t.wave = space.take(padded);
    t.filter = space.take(padded);
    if (more != nullptr) *more = space.take(more_count);
    t.n = t.length = n;
    if (!factor(t)) {
      t.chirp = true;
      t.length = padded;
      factor(t);
    }
    fill_roots(t.roots, t.length, t.length);
    if (t.chirp) make_filter();
  }

  void make_filter() {
    const std::int64_t n = t.n, length = t.length;
    for (std::int64_t k = 0; k < length; ++k) a.re[k] = a.im[k] = 0.0f;
    std::int64_t square = 0;  // k^2 modulo 2 n
    for (std::int64_t k = 0; k < n; ++k) {
      const double angle = kPi * static_cast<double>(square) / static_cast<double>(n);
      t.wave.re[k] = static_cast<float>(__builtin_cos(angle));
      t.wave.im[k] = static_cast<float>(-__builtin_sin(angle));
      for (const std::int64_t at : {k, (length - k) % length}) {
        a.re[at] = t.wave.re[k];
        a.im[at] = -t.wave.im[k];
      }
      square = (square + 2 * k + 1) % (2 * n);
    }
    const Planes result = run_passes(t, 1, a, b);
    const float factor = 1.0f / static_cast<float>(length);  // a power of two
    for (std::int64_t k = 0; k < length; ++k) {
      t.filter.re[k] = result.re[k] * factor;
      t.filter.im[k] = result.im[k] * factor;
    }
  }
};

/// Floats from a complex number of [..., n, 2] to the next one.
std::int64_t pair_stride(const TensorView& v) { return v.strides[v.rank - 2] / 4; }
/// Row `row` of a view whose rows are its last `inner` axes.
float* fft_row(const TensorView& v, int inner, std::int64_t row) {
  std::int64_t bytes = 0;
  for (int i = v.rank - inner - 1; i >= 0; --i) {
    bytes += row % v.dims[i] * v.strides[i];
    row /= v.dims[i];
  }
  return at<float>(v, bytes);
}
std::int64_t fft_rows(const TensorView& v, int inner) {
  std::int64_t n = 1;
  for (int i = 0; i + inner < v.rank; ++i) n *= v.dims[i];
  return n;
}

/// Calls f(first row, rows) for this thread's rows, as many at a time as the worker holds.
template <typename F>
void each_block(const KernelArgs& a, std::int64_t rows, std::int64_t at_once, F f) {
  const Range mine = part(a, rows);
  for (std::int64_t r = mine.begin; r < mine.end; r += at_once)
    f(r, mine.end - r < at_once ? mine.end - r : at_once);
}

void fft(const Fft& op, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t n = x.dims[x.rank - 2];
  const std::int64_t rows = fft_rows(x, 2), x_step = pair_stride(x), y_step = pair_stride(y);
  const Range mine = part(a, rows);
  if (mine.begin >= mine.end) return;
  Worker w(n, a.scratch, nullptr, 0);
  const float factor = op.inverse ? 1.0f / static_cast<float>(n) : 1.0f;
  each_block(a, rows, w.rows, [&](std::int64_t first, std::int64_t count) {
    // Exchanged parts turn a forward transform into the inverse one.
    const Planes in = op.inverse ? swapped(w.a) : w.a;
    for (std::int64_t r = 0; r < count; ++r) {
      const float* from = fft_row(x, 2, first + r);
      for (std::int64_t k = 0; k < n; ++k) {
        in.re[k * count + r] = from[x_step * k];
        in.im[k * count + r] = from[x_step * k + 1];
      }
    }
    Planes out = transform(w.t, count, w.a, w.b);
    if (op.inverse) out = swapped(out);
    for (std::int64_t r = 0; r < count; ++r) {
      float* to = fft_row(y, 2, first + r);
      for (std::int64_t k = 0; k < n; ++k) {
        to[y_step * k] = out.re[k * count + r] * factor;
        to[y_step * k + 1] = out.im[k * count + r] * factor;
      }
    }
  });
}

/// The transform of real values: of even n as that of n / 2 complex ones, x[2 k] + i x[2 k + 1], which holds the
/// transforms of the even and the odd values.
void real_fft(const RealFft&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t n = x.dims[x.rank - 1], half = n / 2, m = n % 2 == 0 ? half : n;
  const std::int64_t rows = fft_rows(x, 1), step = pair_stride(y);
  const Range mine = part(a, rows);
  if (mine.begin >= mine.end) return;
  Planes turn{};
  Worker w(m, a.scratch, &turn, half + 1);
  fill_roots(turn, n, half + 1);
  each_block(a, rows, w.rows, [&](std::int64_t first, std::int64_t count) {
    for (std::int64_t r = 0; r < count; ++r) {
      const float* from = fft_row(x, 1, first + r);
      for (std::int64_t k = 0; k < m; ++k) {
        w.a.re[k * count + r] = m == n ? from[k] : from[2 * k];
        w.a.im[k * count + r] = m == n ? 0.0f : from[2 * k + 1];
      }
    }
    const Planes out = transform(w.t, count, w.a, w.b);
    for (std::int64_t r = 0; r < count; ++r) {
      float* to = fft_row(y, 2, first + r);
      for (std::int64_t k = 0; k <= half; ++k) {
        const std::int64_t p = (k == m ? 0 : k) * count + r, q = (k == 0 ? 0 : m - k) * count + r;
        if (m == n) {
          to[step * k] = out.re[p];
          to[step * k + 1] = out.im[p];
          continue;
        }
        const float even_re = 0.5f * (out.re[p] + out.re[q]), even_im = 0.5f * (out.im[p] - out.im[q]),
                    odd_re = 0.5f * (out.im[p] + out.im[q]), odd_im = 0.5f * (out.re[q] - out.re[p]);
        to[step * k] = even_re + (turn.re[k] * odd_re - turn.im[k] * odd_im);
        to[step * k + 1] = even_im + (turn.re[k] * odd_im + turn.im[k] * odd_re);
      }
    }
  });
}

struct Pair {
  float re, im;
};
/// Value k of a half spectrum of n real values; those of the ends are real.
Pair half_spectrum(const float* x, std::int64_t step, std::int64_t k, std::int64_t n) {
  return {x[step * k], k == 0 || 2 * k == n ? 0.0f : x[step * k + 1]};
}

void inverse_real_fft(const InverseRealFft&, const KernelArgs& a) noexcept {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t n = y.dims[y.rank - 1], half = n / 2, m = n % 2 == 0 ? half : n;
  const std::int64_t rows = fft_rows(y, 1), step = pair_stride(x);
  const Range mine = part(a, rows);
  if (mine.begin >= mine.end) return;
  Planes turn{};
  Worker w(m, a.scratch, &turn, half + 1);
  fill_roots(turn, n, half + 1);
  const float factor = 1.0f / static_cast<float>(m);
  each_block(a, rows, w.rows, [&](std::int64_t first, std::int64_t count) {
    const Planes in = swapped(w.a);
    for (std::int64_t r = 0; r < count; ++r) {
      const float* from = fft_row(x, 2, first + r);
      for (std::int64_t k = 0; k < m; ++k) {
        const std::int64_t to = k * count + r;
        if (m == n) {
          const Pair v = half_spectrum(from, step, k <= half ? k : n - k, n);
          in.re[to] = v.re;
          in.im[to] = k <= half ? v.im : -v.im;
          continue;
        }
        const Pair p = half_spectrum(from, step, k, n), q = half_spectrum(from, step, m - k, n);
        const float even_re = 0.5f * (p.re + q.re), even_im = 0.5f * (p.im - q.im), d_re = 0.5f * (p.re - q.re),
                    d_im = 0.5f * (p.im + q.im);
        const float odd_re = d_re * turn.re[k] + d_im * turn.im[k], odd_im = d_im * turn.re[k] - d_re * turn.im[k];
        in.re[to] = even_re - odd_im;
        in.im[to] = even_im + odd_re;
      }
    }
    const Planes out = swapped(transform(w.t, count, w.a, w.b));
    for (std::int64_t r = 0; r < count; ++r) {
      float* to = fft_row(y, 1, first + r);
      for (std::int64_t k = 0; k < m; ++k) {
        if (m == n) {
          to[k] = out.re[k * count + r] * factor;
        } else {
          to[2 * k] = out.re[k * count + r] * factor;
          to[2 * k + 1] = out.im[k * count + r] * factor;
        }
      }
    }
  });
}

bool accepts_fft(const KernelQuery& q) { return q.in[0].dtype == DType::f32; }
ScratchNeed fft_scratch(const ScratchQuery& q) {
  const TensorView& x = q.in[0];
  return {.per_worker = FftSpace::bytes(x.dims[x.rank - 2])};
}
ScratchNeed real_fft_scratch(const ScratchQuery& q) {
  const TensorView& x = q.in[0];
  return {.per_worker = FftSpace::bytes(x.dims[x.rank - 1])};
}
ScratchNeed inverse_real_fft_scratch(const ScratchQuery& q) {
  const TensorView& y = q.out[0];
  return {.per_worker = FftSpace::bytes(y.dims[y.rank - 1])};
}

constexpr Isa kIsa = Isa::RLX_ISA_LEVEL;
constexpr Kernel kTable[] = {
    kernel<Fft, fft>(RLX_ROW_NAME("fft_f32"), kIsa, accepts_fft, fft_scratch),
    kernel<RealFft, real_fft>(RLX_ROW_NAME("real_fft_f32"), kIsa, accepts_fft, real_fft_scratch),
    kernel<InverseRealFft, inverse_real_fft>(RLX_ROW_NAME("inverse_real_fft_f32"), kIsa, accepts_fft,
                                             inverse_real_fft_scratch),
};

}  // namespace

KernelTable fft_kernels() { return {kTable, sizeof(kTable) / sizeof(kTable[0])}; }

}  // namespace rlx::cpu::RLX_ISA_LEVEL
#endif
