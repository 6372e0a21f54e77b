// Every kernel row that can run on this machine, over every sample of its op, against the
// interpreter: with one and with several threads (bitwise equal), and with padded, misaligned rows.
// A row that takes no sample at all is a failure: an untested kernel cannot exist. Then over random samples near those
// of its op: RLX_SEED is the seed, and a failure names it with the sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "backends/cpu/backend.h"
#include "backends/cpu/kernels.h"
#include "base/error.h"
#include "ops/attention.h"
#include "ops/materialize.h"
#include "ops/sample_variants.h"
#include "runtime/kernel_run.h"

namespace rlx {
namespace {

// quality.md, 4.3: normalised mean square error by what limits the precision of the result.
double limit(const Kernel& row, const Sample& s, const Shape& result) {
  if (row.isa == Isa::amx) return 5e-4;  // rounds both factors to bf16
  bool narrow = false, half = false;
  for (const SampleOperand& o : s.operands) {
    half |= o.shape.dtype == DType::f16 || o.shape.dtype == DType::bf16;
    narrow |= o.shape.kind == ShapeKind::kv && o.shape.dtype != DType::f32;
  }
  if (result.dtype == DType::xq8)
    return 1e-4;  // a value at a rounding tie moves by one step of max / 127
  if (result.dtype == DType::f16) return 1e-6;
  if (result.dtype == DType::bf16) return 1e-5;
  if (narrow) return 5e-4;
  return half ? 5e-4 : 1e-7;
}

// Queries meet a narrow cache rounded to bf16 or int8 (attention_tile.h), so the error of a score grows with the spread
// of the scores. Up to 16 the limit above holds for it. The errors of rows and heads are independent draws: three
// standard deviations of the mean of their squares.
double sharpness(const OpDef& def, const Sample& s) {
  if (def.name != Attention::name) return 1;
  const auto size = [&](std::size_t operand, int axis) {
    return double(*s.operands[operand].shape.dim(axis).constant());
  };
  const auto op = from_blob<Attention>(s.op);
  const double spread = std::abs(double{op.scale}) * std::sqrt(size(1, 1)), draws = size(0, 0) * op.heads;
  return std::max(1.0, spread * spread / 256 * (1 + 3 * std::sqrt(2 / std::max(1.0, draws))));
}

// Power of a value below which only its absolute error counts: gelu of -6 is 6e-9, and a random sample may consist of
// such numbers.
double least_power(const OpDef& def, const Sample& s) {
  return def.print(s.op).find("=gelu") != std::string::npos ? 1e-6 : 0;
}

double power(std::span<const float> values) {
  double sum = 0;
  for (const float v : values)
    if (std::isfinite(v)) sum += double(v) * double(v);
  return sum;
}

double square_error(const std::vector<float>& got, std::span<const float> want) {
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    // Infinities and NaNs must be where the reference has them.
    if (got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]))) continue;
    const double d = double(got[i]) - double(want[i]);
    error += d * d;
  }
  return error;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class Conformance : public testing::TestWithParam<std::string> {};

std::vector<std::string> op_names() {
  std::map<std::string, int> names;
  for (const Kernel& k : cpu::cpu_kernels()) ++names[std::string(k.op)];
  std::vector<std::string> list;
  for (auto& [n, c] : names) list.push_back(n);
  return list;
}

constexpr Arrangement kArrangements[] = {{false, false}, {true, false}, {true, true}, {false, true}};

std::vector<const Kernel*> rows_of(std::string_view op) {
  const Isa machine = cpu::isa_of(cpu_features());
  std::vector<const Kernel*> rows;
  for (const Kernel& row : cpu::cpu_kernels())
    if (row.op == op && row.isa <= machine) rows.push_back(&row);
  return rows;
}

// A sample with what the interpreter makes of it.
struct Case {
  const OpDef& def;
  const Sample& sample;
  std::uint64_t seed;
  std::vector<Tensor> values, want;
  double slack = 1, least_power = 0;  // of the random samples
  Case(const OpDef& op, const Sample& s, std::uint64_t own)
      : def(op), sample(s), seed(own), values(materialize(s, own)), want(run_sample(op, s, values)) {}
};

// Median of the power of result i over other numbers in the same sample. A result of few numbers may by chance be near
// zero, where the rounding of its terms is all that is left: it is measured against what such a result usually is.
double usual_power(const Case& c, std::size_t i) {
  std::vector<double> powers;
  for (std::uint64_t draw = 1; draw <= 15; ++draw) {
    const std::vector<Tensor> values = materialize(c.sample, c.seed + draw * 1'000'000'007);
    powers.push_back(power(run_sample(c.def, c.sample, values)[i].to_floats()));
  }
  std::nth_element(powers.begin(), powers.begin() + 7, powers.end());
  return powers[7];
}

std::vector<std::vector<float>> results_of(KernelRun& run, int threads) {
  static Workers one(1), three(3);
  run.prepare(threads);
  run.call(threads == 1 ? one : three);
  return run.results();
}

void expect_close(const Kernel& row, const Case& c, const std::vector<std::vector<float>>& got) {
  ASSERT_EQ(got.size(), c.want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::vector<float> reference = c.want[i].to_floats();
    ASSERT_EQ(got[i].size(), reference.size());
    const double most = c.slack * limit(row, c.sample, c.want[i].shape()), error = square_error(got[i], reference);
    const double own = std::max(power(reference), c.least_power * double(reference.size()));
    if (error <= most * own) continue;
    const double usual = std::max(own, usual_power(c, i));
    EXPECT_LE(error, most * usual) << "result " << i << ", power " << own << ", usual " << usual;
  }
}

/// Checks a row in every arrangement that it accepts; whether there is one. `sample` says which for the messages.
bool check_row(const Kernel& row, const Case& c, const std::string& sample) {
  bool taken = false;
  for (const Arrangement how : kArrangements) {
    KernelRun run(cpu::backend(), row, c.sample, c.values, how);
    if (!run.accepted()) continue;
    taken = true;
    SCOPED_TRACE(fmt::format("{} on {}{}{}", row.name, sample, how.packed_weights ? ", packed" : "",
                             how.padded_rows ? ", padded" : ""));
    const auto got = results_of(run, 1);
    expect_close(row, c, got);
    if (testing::Test::HasFailure()) return true;
    const auto again = results_of(run, 3);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], again[i])) << "1 and 3 threads differ in result " << i;
    if (!run.can_be_in_place()) continue;
    KernelRun over(cpu::backend(), row, c.sample, c.values, {how.packed_weights, how.padded_rows, true});
    for (const int threads : {1, 3})
      EXPECT_TRUE(same_bits(results_of(over, threads)[0], got[0])) << "in place, " << threads << " threads";
  }
  return taken;
}

TEST_P(Conformance, EveryRowMatchesTheInterpreterOnEverySample) {
  const OpDef* def = find_op(GetParam());
  ASSERT_NE(def, nullptr);
  const std::vector<const Kernel*> rows = rows_of(GetParam());
  if (rows.empty()) GTEST_SKIP() << "this machine runs no row of " << GetParam();
  std::map<std::string_view, int> taken;
  for (const Sample& sample : def->samples()) {
    const Case c(*def, sample, 7);
    for (const Kernel* row : rows) {
      taken[row->name] += check_row(*row, c, sample.name);
      if (HasFailure()) return;
    }
  }
  for (const auto& [name, count] : taken) EXPECT_GT(count, 0) << name << " takes no sample of " << GetParam();
}

constexpr int kRandomSamples = 32;  // of each row

std::uint64_t seed_of_run() {
  const char* text = std::getenv("RLX_SEED");
  if (text == nullptr || *text == 0) return 20250705;
  std::uint64_t seed = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, seed).ptr != end)
    fail(ErrorCode::invalid_argument, "RLX_SEED: expected an integer from 0 to 2^64 - 1, found \"{}\"", text);
  return seed;
}

bool accepts(const Kernel& row, const Sample& sample) {
  for (const Arrangement how : kArrangements)
    if (KernelRun(cpu::backend(), row, sample, {}, how).accepted()) return true;
  return false;
}

// A recurrence whose steps grow, as with negative steps of time, leaves the range of float32 before that of double.
bool explodes(const std::vector<Tensor>& want) {
  for (const Tensor& t : want)
    for (const float v : t.to_floats())
      if (!(std::abs(v) < 1e18f)) return true;
  return false;
}

TEST_P(Conformance, EveryRowMatchesTheInterpreterOnRandomSamples) {
  const OpDef& def = *find_op(GetParam());
  const std::vector<const Kernel*> rows = rows_of(GetParam());
  if (rows.empty()) GTEST_SKIP() << "this machine runs no row of " << GetParam();
  const std::uint64_t seed = seed_of_run();
  const std::vector<Sample> bases = def.samples();
  std::map<const Kernel*, std::vector<bool>> suits;  // row -> whether it takes base i
  for (const Kernel* row : rows)
    for (const Sample& base : bases) suits[row].push_back(accepts(*row, base));
  std::map<const Kernel*, int> taken;
  // In rounds over the samples of the op, so that the few of a row come from as many of them as it takes.
  for (std::uint64_t round = 0; round < 100; ++round)
    for (std::size_t b = 0; b < bases.size(); ++b) {
      std::vector<const Kernel*> wanting;
      for (const Kernel* row : rows)
        if (taken[row] < kRandomSamples && suits[row][b]) wanting.push_back(row);
      if (wanting.empty()) continue;
      const std::uint64_t own = (seed * 1000 + b) * 1000 + round;
      const Sample sample = vary(def, bases[b], own);
      std::optional<Case> c;
      try {
        c.emplace(def, sample, own);
      } catch (const Error&) {
        continue;  // an index of the base is outside of the new sizes
      }
      if (def.has(Trait::state) && explodes(c->want)) continue;
      c->slack = sharpness(def, sample);
      c->least_power = least_power(def, sample);
      for (const Kernel* row : wanting) {
        taken[row] += check_row(*row, *c, fmt::format("{}\nRLX_SEED={}", describe(def, sample), seed));
        if (HasFailure()) return;
      }
    }
  for (const Kernel* row : rows) EXPECT_EQ(taken[row], kRandomSamples) << row->name;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Conformance, testing::ValuesIn(op_names()),
                         [](const auto& i) { return i.param; });

}  // namespace
}  // namespace rlx
