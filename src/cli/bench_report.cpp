#include "cli/bench_report.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "base/error.h"
#include "cli/output.h"
#include "cli/process_memory.h"
#include "cli/version.h"
#include "runtime/backends.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

std::string model_type(const Decoder& d) {
  const ModelInfo& m = d.info();
  // A file mixes types: it is called by the one that most bytes have.
  std::map<DType, std::size_t> bytes;
  for (const ModelParam& p : d.model().model.params)
    if (!p.owned) bytes[p.weight.dtype] += static_cast<std::size_t>(p.stored_bytes());
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("{} {}", m.name.empty() ? m.architecture : one_line(m.name),
                     most == bytes.end() ? "" : name(most->first));
}

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm t = {};
  gmtime_r(&now, &t);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &t);
  return text;
}

// Standard deviation of the times themselves.
double stddev_ns(const BenchResult& r, double mean) {
  double sum = 0;
  for (const double s : r.seconds) sum += std::pow(s * 1e9 - mean, 2);
  return r.seconds.size() < 2 ? 0 : std::sqrt(sum / static_cast<double>(r.seconds.size() - 1));
}

double mean_ns(const BenchResult& r) {
  double sum = 0;
  for (const double s : r.seconds) sum += s * 1e9;
  return r.seconds.empty() ? 0 : sum / static_cast<double>(r.seconds.size());
}

std::string kv_type(const Decoder& d) {
  const Precision& p = d.options().compile.precision;
  if (p.kv) return std::string(name(*p.kv));
  return std::string(name(p.activations == Activations::f32
                              ? DType::f32
                              : find_backend(d.options().device).default_kv()));
}

// Rates of a kernel in shares of the probe. The wait behind it counts as its time: it lasts until the slowest thread
// is done.
struct KernelShare {
  double ms = 0, gbps = 0, gops = 0, read = 0, compute = 0;
};
KernelShare share_of(const KernelTime& k, const ProbeResult& probe) {
  const double us = std::max(k.us + k.wait_us, 1e-9);
  KernelShare s{us / 1e3, k.bytes / us / 1e3, k.ops / us / 1e3, 0, 0};
  s.read = probe.gbps > 0 ? s.gbps / probe.gbps : 0;
  s.compute = probe.rate(k.unit) > 0 ? s.gops / probe.rate(k.unit) : 0;
  return s;
}

// Time of the steps in which thread 0 is in no kernel: waits at barriers, and what lies around the program.
struct BetweenKernels {
  double wait_us = 0, outside_us = 0;
};
BetweenKernels between_kernels(const BenchResult& r, const std::vector<KernelTime>& kernels) {
  BetweenKernels b;
  for (const double s : r.seconds) b.outside_us += s * 1e6;
  for (const KernelTime& k : kernels) {
    b.wait_us += k.wait_us;
    b.outside_us -= k.us + k.wait_us;
  }
  b.outside_us = std::max(b.outside_us, 0.0);
  return b;
}

ordered_json kernels_json(const BenchResult& r, const std::vector<KernelTime>& kernels) {
  double total = 0;
  for (const KernelTime& k : kernels) total += k.us + k.wait_us;
  ordered_json list = ordered_json::array();
  for (const KernelTime& k : kernels) {
    const KernelShare s = share_of(k, r.probe);
    list.push_back({{"kernel", k.kernel},
                    {"calls", k.calls},
                    {"us", k.us},
                    {"wait_us", k.wait_us},
                    {"bytes", k.bytes},
                    {"ops", k.ops},
                    {"unit", name(k.unit)},
                    {"share", total > 0 ? (k.us + k.wait_us) / total : 0},
                    {"share_of_read_probe", s.read},
                    {"share_of_unit_probe", s.compute}});
  }
  return list;
}

std::string csv_field(const ordered_json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string size_text(std::int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib >= 1024 ? fmt::format("{:.2f} GiB", mib / 1024) : fmt::format("{:.2f} MiB", mib);
}

std::string params_text(std::int64_t n) {
  return n >= 1'000'000'000 ? fmt::format("{:.2f} B", static_cast<double>(n) / 1e9)
                            : fmt::format("{:.2f} M", static_cast<double>(n) / 1e6);
}

std::string kernels_text(const BenchResult& r, const std::vector<KernelTime>& kernels) {
  std::string text = fmt::format("{:<44} {:>8} {:>10} {:>9} {:>8} {:>6} {:>9} {:>6}  unit\n", "kernel", "calls", "ms",
                                 "wait ms", "GB/s", "read", "GOPS", "unit");
  for (const KernelTime& k : kernels) {
    const KernelShare s = share_of(k, r.probe);
    text += fmt::format("{:<44} {:>8} {:>10.3f} {:>9.3f} {:>8.2f} {:>5.0f}% {:>9.1f} {:>5.0f}%  {}\n", k.kernel,
                        k.calls, k.us / 1e3, k.wait_us / 1e3, s.gbps, 100 * s.read, s.gops, 100 * s.compute,
                        name(k.unit));
  }
  const BetweenKernels b = between_kernels(r, kernels);
  return text + fmt::format("between kernels: {:.3f} ms at barriers, {:.3f} ms around the program\n", b.wait_us / 1e3,
                            b.outside_us / 1e3);
}

}  // namespace

ordered_json bench_json(const Decoder& d, const BenchResult& r,
                        const std::vector<KernelTime>& kernels) {
  const ModelInfo& m = d.info();
  const double mean = mean_ns(r);
  ordered_json samples_ns = ordered_json::array(), samples_ts = ordered_json::array();
  for (std::size_t i = 0; i < r.seconds.size(); ++i) {
    samples_ns.push_back(std::llround(r.seconds[i] * 1e9));
    samples_ts.push_back(r.tokens_per_second(i));
  }
  ordered_json j = {
      {"build_commit", version_number()},
      {"build_number", 0},
      {"cpu_info", cpu_features().model},
      {"gpu_info", ""},
      {"backends", d.options().device.text() == "cpu" ? "CPU" : d.options().device.text()},
      {"model_filename", d.model().path.string()},
      {"model_type", model_type(d)},
      {"model_size", m.weight_bytes},
      {"model_n_params", m.parameters},
      {"n_batch", d.options().chunk},
      {"n_ubatch", d.options().chunk},
      {"n_threads", d.threads()},
      {"cpu_mask", "0x0"},
      {"cpu_strict", false},
      {"poll", 50},
      {"type_k", kv_type(d)},
      {"type_v", kv_type(d)},
      {"n_gpu_layers", 0},
      {"split_mode", "none"},
      {"main_gpu", 0},
      {"no_kv_offload", false},
      {"flash_attn", true},
      {"tensor_split", "0.00"},
      {"use_mmap", true},
      {"embeddings", false},
      {"n_prompt", r.test.prompt},
      {"n_gen", r.test.generated},
      {"n_depth", r.test.depth},
      {"test_time", time_text()},
      {"avg_ns", std::llround(mean)},
      {"stddev_ns", std::llround(stddev_ns(r, mean))},
      {"avg_ts", r.mean_tps()},
      {"stddev_ts", r.stddev_tps()}};
  j["samples_ns"] = std::move(samples_ns);
  j["samples_ts"] = std::move(samples_ts);
  j["n_sequences"] = r.test.sequences;
  j["isa"] = find_backend(d.options().device).features();
  j["probe_gbps"] = r.probe.gbps;
  j["probe_gops"] = r.probe.gops;
  j["probe_bf16_gflops"] = r.probe.bf16_gflops;
  j["probe_f32_gflops"] = r.probe.f32_gflops;
  j["unit"] = name(r.unit());
  j["bytes"] = r.work.bytes;
  j["ops"] = r.work.ops[0] + r.work.ops[1] + r.work.ops[2];
  j["share"] = r.share();
  j["median_ts"] = r.median_tps();
  j["first_token_ms"] = r.first_token_ms;
  j["median_ms"] = r.median_ms();
  j["p95_ms"] = r.p95_ms();
  j["peak_mb"] = peak_resident_mib();
  if (!kernels.empty()) {
    const BetweenKernels between = between_kernels(r, kernels);
    j["kernels"] = kernels_json(r, kernels);
    j["between_kernels"] = {{"wait_us", between.wait_us}, {"outside_us", between.outside_us}};
  }
  return j;
}

void BenchReport::add_row(const Decoder& d, const BenchResult& r) {
  if (count_ == 0) {
    out().write(
        "| model                          |       size |     params | backend    | threads |       "
        "     test |                  t/s |\n");
    out().write(
        "| ------------------------------ | ---------: | ---------: | ---------- | ------: | "
        "--------------: | -------------------: |\n");
  }
  out().write(fmt::format(
      "| {:<30} | {:>10} | {:>10} | {:<10} | {:>7} | {:>15} | {:>20} |\n", model_type(d),
      size_text(d.info().weight_bytes), params_text(d.info().parameters),
      d.options().device.text() == "cpu" ? "CPU" : d.options().device.text(), d.threads(),
      r.test.name(), fmt::format("{:.2f} \u00b1 {:.2f}", r.mean_tps(), r.stddev_tps())));
}

void BenchReport::add(const Decoder& d, const BenchResult& r,
                      const std::vector<KernelTime>& kernels) {
  if (format_ == BenchFormat::md) {
    add_row(d, r);
    const bool reads = r.test.generated > 0 && r.test.prompt == 0;
    say(fmt::format("{}: {:.0f} % of the {} probe (read {:.1f} GB/s, int8 {:.0f} GOPS, bf16 {:.0f}, f32 {:.0f} "
                    "GFLOP/s); first token {:.1f} ms, median {:.2f} ms, p95 {:.2f} ms",
                    r.test.name(), 100 * r.share(), reads ? "read" : name(r.unit()), r.probe.gbps, r.probe.gops,
                    r.probe.bf16_gflops, r.probe.f32_gflops, r.first_token_ms, r.median_ms(), r.p95_ms()));
  } else {
    const ordered_json j = bench_json(d, r, kernels);
    if (format_ == BenchFormat::json)
      out().write(fmt::format("{}{}", count_ == 0 ? "[\n" : ",\n", json_text(j, 2)));
    if (format_ == BenchFormat::jsonl) write_json(j);
    if (format_ == BenchFormat::csv) {
      std::string head, row;
      for (const auto& [key, value] : j.items()) {
        head += (head.empty() ? "" : ",") + key;
        row += (row.empty() ? "" : ",") + csv_field(value);
      }
      if (count_ == 0) out().write(head + "\n");
      out().write(row + "\n");
    }
  }
  if (!kernels.empty() && format_ == BenchFormat::md) say(kernels_text(r, kernels));
  out().flush();
  ++count_;
}

void BenchReport::finish() {
  if (format_ == BenchFormat::json) out().write(count_ == 0 ? "[]\n" : "\n]\n");
  if (format_ == BenchFormat::md) out().write(fmt::format("\nbuild: {} (0)\n", version_number()));
}

}  // namespace rlx::cli
