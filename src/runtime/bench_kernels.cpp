#include "runtime/bench_kernels.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "base/error.h"
#include "base/nearest.h"
#include "ops/materialize.h"
#include "ops/sample_variants.h"
#include "runtime/backends.h"
#include "runtime/kernel_run.h"

namespace rlx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kReferenceSeconds = 0.004;  // a sample grows until its reference takes this long
constexpr double kKernelSeconds = 0.0005;    // a kernel is repeated until it takes this long
constexpr std::int64_t kMostElements = std::int64_t{4} << 20;
constexpr int kLeastRounds = 5, kMostRounds = 15;
constexpr double kRowSeconds = 0.12;  // of the rounds of a row, unless the least ones take longer

// Why rows stay below a factor of 2, by how their names begin; the first that fits.
struct Reason {
  std::string_view prefix, text;
};
constexpr Reason kReasons[] = {
    {"reduce_f32", "sums of doubles in increasing order, as the reference makes them: each waits for the one before"},
    {"quantize_f32_blocks", "both run the encoder of the format: weights pass it once, not in a step"},
    {"relative_bias_f32", "a look-up: both spend the time on the op's own function from distance to bucket"},
    {"sample_f32", "both run the same function: a token must not depend on the backend"},
};

std::string reason_of(const Kernel& row) {
  for (const Reason& r : kReasons)
    if (row.name.starts_with(r.prefix)) return std::string(r.text);
  return "no reason known";
}

double seconds_of(const auto& f) {
  const Clock::time_point start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string text_of(const OpDef& def, const Sample& s) {
  std::string text;
  for (const SampleOperand& o : s.operands) text += (text.empty() ? "" : " ") + o.shape.text();
  return text + def.print(s.op);
}

// A chunk of a prompt behind a cached prefix.
samples::Batch chunk_of_a_prompt() { return {"chunk", {320}, {64}, {0}, 1, 8}; }

class RowBench {
 public:
  RowBench(const Backend& backend, const Kernel& row, Workers& workers)
      : backend_(backend), row_(row), def_(*find_op(row.op)), workers_(workers) {}

  /// False: the row takes no sample.
  bool measure(KernelBench& result) {
    if (!choose()) return false;
    grow();
    const std::vector<Tensor> values = materialize(sample_, 7);
    SampleOracle oracle(def_, sample_, values);
    KernelRun run(backend_, row_, sample_, values, how_);
    run.prepare(workers_.threads());
    time(run, oracle, result);
    result.kernel = row_.name;
    result.op = row_.op;
    result.isa = row_.isa;
    result.sample = text_of(def_, sample_);
    if (result.factor < 2) result.reason = reason_of(row_);
    return true;
  }

 private:
  bool accepts(const Sample& s, Arrangement how) const {
    return KernelRun(backend_, row_, s, {}, how).accepted();
  }

  // The largest sample of the op that the row takes; panels where it has the choice, as sessions have them.
  bool choose() {
    std::int64_t most = -1;
    for (const Sample& s : def_.samples())
      for (const bool packed : {true, false}) {
        const Arrangement how{.packed_weights = packed};
        const std::int64_t n = sample_elements(def_, s);
        if (n <= most || !accepts(s, how)) continue;
        most = n;
        sample_ = s;
        how_ = how;
      }
    return most >= 0;
  }

  // Doubles the smallest size that can be doubled, so that all grow alike, until the reference takes long enough.
  void grow() {
    take(with_batch(def_, sample_, chunk_of_a_prompt()));
    while (sample_elements(def_, sample_) < kMostElements && reference_seconds(sample_) < kReferenceSeconds) {
      std::vector<std::int64_t> sizes;
      for (std::size_t i = 0; i < sample_.operands.size(); ++i) {
        const SampleOperand& o = sample_.operands[i];
        // From the third axis on, a weight has the extents of a window, which models keep small.
        const int axes = o.fill == Fill::pages ? 0 : i == 0 ? o.shape.rank() : std::min(o.shape.rank(), 2);
        for (int a = 0; a < axes; ++a)
          if (const std::int64_t n = *o.shape.dim(a).constant(); n > 0) sizes.push_back(n);
      }
      std::sort(sizes.begin(), sizes.end());
      sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
      if (std::none_of(sizes.begin(), sizes.end(), [this](std::int64_t n) { return doubled(n); })) return;
    }
  }

  bool doubled(std::int64_t size) {
    for (const Follow follow : {Follow::multiples, Follow::equal, Follow::halves})
      for (const bool attributes : {true, false}) {
        std::optional<Sample> next = resized(
            def_, sample_, {.from = size, .to = 2 * size, .follow = follow, .attributes = attributes});
        if (next && sample_elements(def_, *next) > sample_elements(def_, sample_) && take(std::move(next))) return true;
      }
    return false;
  }

  bool take(std::optional<Sample> next) {
    if (!next || sample_elements(def_, *next) > 2 * kMostElements || !accepts(*next, how_)) return false;
    try {
      reference_seconds(*next);
    } catch (const Error&) {
      return false;  // an index outside of the new sizes
    }
    sample_ = std::move(*next);
    return true;
  }

  double reference_seconds(const Sample& s) {
    const std::string key = text_of(def_, s);
    if (const auto known = seconds_.find(key); known != seconds_.end()) return known->second;
    const std::vector<Tensor> values = materialize(s, 7);
    SampleOracle oracle(def_, s, values);
    return seconds_[key] = seconds_of([&] { oracle.run(); });
  }

  void time(KernelRun& run, SampleOracle& oracle, KernelBench& result) {
    run.call(workers_);  // the first touch of its memory
    const double once = seconds_of([&] { run.call(workers_); });
    const int calls = static_cast<int>(std::clamp(kKernelSeconds / std::max(once, 1e-8), 1.0, 10000.0));
    std::vector<double> kernel, reference, ratios;
    const Clock::time_point start = Clock::now();
    for (int round = 0; round < kMostRounds; ++round) {
      if (round >= kLeastRounds && std::chrono::duration<double>(Clock::now() - start).count() > kRowSeconds) break;
      kernel.push_back(seconds_of([&] {
                         for (int i = 0; i < calls; ++i) run.call(workers_);
                       }) / calls);
      reference.push_back(seconds_of([&] { oracle.run(); }));
      ratios.push_back(reference.back() / kernel.back());
    }
    result.kernel_us = 1e6 * middle(kernel);
    result.reference_us = 1e6 * middle(reference);
    result.factor = middle(ratios);
  }

  const Backend& backend_;
  const Kernel& row_;
  const OpDef& def_;
  Workers& workers_;
  Sample sample_;
  Arrangement how_;
  std::map<std::string, double> seconds_;  // of the reference, by sample
};

void check_ops(const Backend& backend, const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const Kernel& row : backend.kernels()) known.emplace_back(row.op);
  for (const std::string& op : wanted)
    if (std::find(known.begin(), known.end(), op) == known.end())
      fail(ErrorCode::usage, "no kernel of this machine is for an op \"{}\"{}", op, did_you_mean(op, known));
}

}  // namespace

std::string_view isa_name(Isa isa) {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
  return kNames[static_cast<std::size_t>(isa)];
}

std::vector<KernelBench> bench_kernels(const KernelBenchOptions& options) {
  const Backend& backend = find_backend(Device::cpu());
  check_ops(backend, options.ops);
  Workers workers(options.threads);
  std::vector<KernelBench> list;
  const std::vector<std::string>& wanted = options.ops;
  for (const Kernel& row : backend.kernels()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row.op) == wanted.end()) continue;
    if (options.cancelled && options.cancelled()) break;
    KernelBench result;
    if (!RowBench(backend, row, workers).measure(result))
      fail(ErrorCode::device, "{}: takes no sample of {}", row.name, row.op);
    if (options.on_row) options.on_row(result);
    list.push_back(std::move(result));
  }
  return list;
}

}  // namespace rlx
