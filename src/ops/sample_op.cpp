#include "ops/sample_op.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.h"
#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

struct Candidate {
  float logit;
  std::int32_t id;
};

// Better first: the larger logit, of equals the lower id.
bool better(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Working memory of one row.
struct Choice {
  Candidate* candidates;
  double* weights;
  std::int64_t kept;
};

bool can_choose(const float* logits, std::int64_t n) {
  bool finite = false;
  for (std::int64_t i = 0; i < n; ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity()) return false;
    finite = finite || logits[i] != -std::numeric_limits<float>::infinity();
  }
  return finite;
}

// Leaves the candidates of the smallest set that reaches top_p in front. Orders the best 64, then
// 512, ...: as many as the threshold needs.
double keep_top_p(float top_p, Choice& c) {
  Candidate *const begin = c.candidates, *const end = begin + c.kept;
  const double best = std::min_element(begin, end, better)->logit;
  if (top_p >= 1) return best;
  const auto weight = [best](const Candidate& x) {
    return std::exp(static_cast<double>(x.logit) - best);
  };
  double total = 0, sum = 0;
  for (const Candidate* x = begin; x != end; ++x) total += weight(*x);
  const double wanted = static_cast<double>(top_p) * total;
  std::int64_t sorted = 0;
  for (std::int64_t i = 0; i < c.kept; ++i) {
    if (i == sorted) {
      sorted = std::min(c.kept, std::max<std::int64_t>(64, sorted * 8));
      std::partial_sort(begin + i, begin + sorted, end, better);
    }
    sum += weight(begin[i]);
    if (sum < wanted) continue;
    c.kept = i + 1;
    break;
  }
  return best;
}

std::int32_t choose_token(const SampleToken& op, const float* logits, std::int64_t n,
                          double uniform, Choice c) {
  if (!can_choose(logits, n)) return -1;
  for (std::int64_t i = 0; i < n; ++i) c.candidates[i] = {logits[i], static_cast<std::int32_t>(i)};
  c.kept = n;
  if (op.temperature == 0) return std::min_element(c.candidates, c.candidates + n, better)->id;
  if (op.top_k > 0 && op.top_k < n) {
    std::nth_element(c.candidates, c.candidates + (op.top_k - 1), c.candidates + n, better);
    c.kept = op.top_k;
  }
  const double best = keep_top_p(op.top_p, c);
  // A fixed order, so that the draw does not depend on how the library selects.
  std::sort(c.candidates, c.candidates + c.kept,
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  // min_p of the best probability is a bound on the logit.
  const double bound = op.min_p > 0 ? best + std::log(static_cast<double>(op.min_p))
                                    : -std::numeric_limits<double>::infinity();
  double total = 0;
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < c.kept; ++i) {
    const double logit = c.candidates[i].logit;
    const bool keep = logit >= bound || logit == best;
    c.weights[i] = keep ? std::exp((logit - best) / static_cast<double>(op.temperature)) : 0;
    total += c.weights[i];
    if (c.weights[i] > 0) last = i;
  }
  double rest = uniform * total;
  for (std::int64_t i = 0; i < last; ++i) {
    rest -= c.weights[i];
    if (rest < 0 && c.weights[i] > 0) return c.candidates[i].id;
  }
  return c.candidates[last].id;
}

std::uint32_t word(const TensorView& v, std::int64_t i) {
  return static_cast<std::uint32_t>(access::load_int(v, i));
}

}  // namespace

std::size_t sample_scratch_bytes(std::int64_t vocab) {
  return static_cast<std::size_t>(vocab) * (sizeof(Candidate) + sizeof(double));
}

void sample_rows(const SampleToken& op, const KernelArgs& a, std::byte* scratch) noexcept {
  const TensorView& logits = a.in[0];
  const std::int64_t n = logits.dims[1];
  Choice c{};
  c.weights = reinterpret_cast<double*>(scratch);
  c.candidates = reinterpret_cast<Candidate*>(scratch + n * static_cast<std::int64_t>(sizeof(double)));
  const auto part = access::part_of(a, logits.dims[0]);
  for (std::int64_t r = part.begin; r < part.end; ++r) {
    std::uint64_t seed = static_cast<std::uint64_t>(op.seed), step = static_cast<std::uint64_t>(r);
    if (op.streams) {
      seed = std::uint64_t{word(a.in[1], 2 * r + 1)} << 32 | word(a.in[1], 2 * r);
      step = word(a.in[2], r);
    }
    a.out[0].as<std::int32_t>()[r] =
        choose_token(op, logits.row<const float>(r), n, philox_uniform(seed, step), c);
  }
}

void SampleToken::infer(InferContext& c) const {
  checks::operand_count(c, streams ? 3 : 1, streams ? "logits, seeds, steps" : "logits");
  checks::plain(c, 0, DType::f32, 2);
  const Dim rows = c.in(0).dim(0);
  checks::attribute(c, "temperature", double{temperature}, 0, 100);
  checks::attribute(c, "top_k", top_k, 0, INT32_MAX);
  checks::attribute(c, "top_p", double{top_p}, 0, 1);
  checks::attribute(c, "min_p", double{min_p}, 0, 1);
  if (const auto vocab = c.in(0).dim(1).constant(); vocab && (*vocab < 1 || *vocab > INT32_MAX))
    c.fail("logits: expected 1 to {} columns, found {}", INT32_MAX, *vocab);
  if (streams) {
    checks::plain(c, 1, DType::i32, 2);
    checks::has_rows(c, 1, rows, "the rows of logits");
    checks::has_columns(c, 1, 2, "the halves of a seed");
    checks::vector(c, 2, DType::i32, rows, "the rows of logits");
  }
  c.out(Shape({rows}, DType::i32));
}

void SampleToken::reference(const KernelArgs& a) const {
  // Eight-byte aligned, as the weights need.
  std::vector<double> scratch(sample_scratch_bytes(a.in[0].dims[1]) / sizeof(double));
  sample_rows(*this, a, reinterpret_cast<std::byte*>(scratch.data()));
}

std::vector<Sample> SampleToken::samples() {
  const SampleToken forms[] = {
      {},
      {.temperature = 0.0f},
      {.temperature = 1.5f, .top_k = 0, .top_p = 1.0f, .min_p = 0.0f, .seed = 3},
      {.top_k = 1},
      {.temperature = 1.0f, .top_k = 0, .top_p = 0.3f},
      {.top_k = 8, .min_p = 0.9f, .seed = -7, .streams = true},
      {.temperature = 2.0f, .top_p = 0.0f, .streams = true},
      {.temperature = 0.5f, .top_k = 0, .seed = std::int64_t{1} << 40, .streams = true}};
  std::vector<Sample> list;
  for (const SampleToken& op : forms) {
    const std::int64_t rows = samples::deal(samples::kRows, list.size());
    std::vector<SampleOperand> in = {samples::normal({rows, 700}, DType::f32, 3.0f)};
    if (op.streams) {
      std::vector<std::int32_t> seeds, steps;
      for (std::int64_t r = 0; r < rows; ++r) {
        seeds.push_back(static_cast<std::int32_t>(r * 1000003));
        seeds.push_back(static_cast<std::int32_t>(-r));
        steps.push_back(static_cast<std::int32_t>(r * r));
      }
      in.push_back(samples::given({rows, 2}, std::move(seeds)));
      in.push_back(samples::given(std::move(steps)));
    }
    list.push_back(make_sample(fmt::format("form_{}", list.size()), op, std::move(in)));
  }
  return list;
}

}  // namespace rlx
