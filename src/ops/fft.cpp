#include "ops/fft.h"

#include <cmath>
#include <complex>
#include <numbers>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

using Complex = std::complex<double>;
using ComplexLine = std::vector<Complex>;

// The sum of the definition, with + or - in the exponent and without a factor.
ComplexLine dft(const ComplexLine& x, double sign) {
  const std::size_t n = x.size();
  ComplexLine roots(n), y(n);
  for (std::size_t k = 0; k < n; ++k)
    roots[k] = std::polar(1.0, sign * 2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
  for (std::size_t k = 0; k < n; ++k)
    for (std::size_t j = 0, at = 0; j < n; ++j, at = (at + k) % n) y[k] += x[j] * roots[at];
  return y;
}

ComplexLine load_complex(const TensorView& v, std::int64_t line, std::int64_t n) {
  ComplexLine x(static_cast<std::size_t>(n));
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t at = (line * n + k) * 2;
    x[static_cast<std::size_t>(k)] = {access::load_at(v, at), access::load_at(v, at + 1)};
  }
  return x;
}

void store_complex(const TensorView& v, std::int64_t line, std::int64_t n, const ComplexLine& y, double factor) {
  for (std::int64_t k = 0; k < n; ++k) {
    const Complex value = y[static_cast<std::size_t>(k)] * factor;
    access::store_at(v, (line * n + k) * 2, value.real());
    access::store_at(v, (line * n + k) * 2 + 1, value.imag());
  }
}

void check_fft_operand(InferContext& c, bool complex) {
  checks::operand_count(c, 1);
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  const Shape& x = c.in(0);
  if (x.rank() < (complex ? 2 : 1))
    c.fail("x: expected {}, found {}", complex ? "[..., n, 2]" : "[..., n]", x.text());
  if (complex)
    checks::same(c, x.dim(-1), 2, [&] {
      return fmt::format("x {}: expected pairs (real, imaginary) in the last axis", checks::dims_text(x));
    });
  const Dim n = x.dim(complex ? -2 : -1);
  checks::at_most(c, 1, n, [&] { return fmt::format("x {}: a transform of no values", checks::dims_text(x)); });
}

// floor(n / 2) + 1
Dim half_length(Dim n) { return ceil_div(n + 1, 2); }

std::int64_t line_count(const TensorView& v, int inner) {
  std::int64_t n = 1;
  for (int i = 0; i + inner < v.rank; ++i) n *= v.dims[i];
  return n;
}

// Lengths: powers of two, products of small primes, and such as have a large prime factor.
constexpr std::int64_t kFftLengths[] = {1, 2, 3, 4, 8, 15, 16, 25, 31, 60, 64, 77, 94, 97, 120, 202, 256, 400, 1018};

}  // namespace

void Fft::infer(InferContext& c) const {
  check_fft_operand(c, true);
  c.out(c.in(0));
}

void Fft::reference(const KernelArgs& a) const {
  const TensorView& x = a.in[0];
  const std::int64_t n = x.dims[x.rank - 2];
  const auto part = access::part_of(a, line_count(x, 2));
  for (std::int64_t line = part.begin; line < part.end; ++line)
    store_complex(a.out[0], line, n, dft(load_complex(x, line, n), inverse ? 1.0 : -1.0),
                  inverse ? 1.0 / static_cast<double>(n) : 1.0);
}

void RealFft::infer(InferContext& c) const {
  check_fft_operand(c, false);
  const Shape& x = c.in(0);
  if (x.rank() + 1 > kMaxRank) c.fail("x: expected at most {} axes, found {}", kMaxRank - 1, x.text());
  std::vector<Dim> dims(x.dims().begin(), x.dims().end());
  dims.back() = half_length(dims.back());
  dims.push_back(2);
  c.out(Shape(dims, DType::f32));
}

void RealFft::reference(const KernelArgs& a) const {
  const TensorView& x = a.in[0];
  const std::int64_t n = x.dims[x.rank - 1];
  const auto part = access::part_of(a, line_count(x, 1));
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    ComplexLine values(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k) values[static_cast<std::size_t>(k)] = access::load_at(x, line * n + k);
    store_complex(a.out[0], line, n / 2 + 1, dft(values, -1.0), 1.0);
  }
}

void InverseRealFft::infer(InferContext& c) const {
  check_fft_operand(c, true);
  const Shape& x = c.in(0);
  const Dim m = x.dim(-2), length = n == Dim(0) ? 2 * (m - 1) : n;
  checks::at_most(c, 1, length,
                  [&] { return fmt::format("n: expected at least 1 value, found {}", length.text()); });
  checks::same(c, half_length(length), m, [&] {
    return fmt::format("x {}: {} real values have {} values of the transform, found {}", checks::dims_text(x),
                       length.text(), half_length(length).text(), m.text());
  });
  std::vector<Dim> dims(x.dims().begin(), x.dims().end() - 1);
  dims.back() = length;
  c.out(Shape(dims, DType::f32));
}

void InverseRealFft::reference(const KernelArgs& a) const {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t length = y.dims[y.rank - 1], m = x.dims[x.rank - 2];
  const auto part = access::part_of(a, line_count(y, 1));
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    ComplexLine values = load_complex(x, line, m);
    values[0] = values[0].real();
    if (length % 2 == 0) values.back() = values.back().real();
    for (std::int64_t k = m; k < length; ++k) values.push_back(std::conj(values[static_cast<std::size_t>(length - k)]));
    const ComplexLine signal = dft(values, 1.0);
    for (std::int64_t k = 0; k < length; ++k)
      access::store_at(y, line * length + k, signal[static_cast<std::size_t>(k)].real() / static_cast<double>(length));
  }
}

std::vector<Sample> Fft::samples() {
  std::vector<Sample> list;
  for (const std::int64_t n : kFftLengths) {
    const bool inverse = list.size() % 2 == 1;
    const std::int64_t rows = samples::deal(samples::kRows, list.size());
    list.push_back(make_sample(fmt::format("{}x{}{}", rows, n, inverse ? "_inverse" : ""), Fft{inverse},
                               {samples::normal({rows, n, 2})}, n));
  }
  list.push_back(make_sample("line", Fft{}, {samples::normal({48, 2})}, 48));
  list.push_back(make_sample("line_inverse", Fft{true}, {samples::normal({59, 2})}, 59));
  list.push_back(make_sample("axes", Fft{}, {samples::normal({2, 3, 4, 10, 2})}, 10));
  return list;
}

std::vector<Sample> RealFft::samples() {
  std::vector<Sample> list;
  for (const std::int64_t n : kFftLengths) {
    const std::int64_t rows = samples::deal(samples::kRows, list.size() + 3);
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), RealFft{}, {samples::normal({rows, n})}, n));
  }
  list.push_back(make_sample("line", RealFft{}, {samples::normal({34})}, 34));
  list.push_back(make_sample("axes", RealFft{}, {samples::normal({2, 3, 5, 21})}, 21));
  return list;
}

std::vector<Sample> InverseRealFft::samples() {
  std::vector<Sample> list;
  for (const std::int64_t n : kFftLengths) {
    const std::int64_t rows = samples::deal(samples::kRows, list.size() + 5);
    list.push_back(make_sample(fmt::format("{}x{}", rows, n), InverseRealFft{n},
                               {samples::normal({rows, n / 2 + 1, 2})}, n));
  }
  list.push_back(make_sample("even_by_default", InverseRealFft{}, {samples::normal({3, 9, 2})}, 16));
  list.push_back(make_sample("line", InverseRealFft{}, {samples::normal({18, 2})}, 34));
  list.push_back(make_sample("axes", InverseRealFft{21}, {samples::normal({2, 3, 5, 11, 2})}, 21));
  return list;
}

}  // namespace rlx
