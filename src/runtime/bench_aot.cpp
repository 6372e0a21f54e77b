#include "runtime/bench_aot.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/work_folder.h"
#include "runtime/decoder.h"
#include "runtime/synthetic_decoder.h"
#include "runtime/trace.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// Layers of a 1B decoder in q8_0: 61.6 MiB each, 17 MiB of tables.
SyntheticShape shape_of(std::int64_t mib) {
  SyntheticShape s{1, 2048, 32, 8, 64, 8192, 8192};
  s.layers = std::max<std::int64_t>(1, mib / 62);
  return s;
}

LoadedModel loaded(const SyntheticDecoder& decoder) {
  LoadedModel m;
  m.model = decoder.build();
  m.config = decoder.config();
  m.path = "synthetic decoder";
  return m;
}

// Steady nanoseconds at which a first call ended.
std::int64_t first_call(const Trace& trace) {
  std::int64_t first = INT64_MAX;
  for (const TraceLane& lane : trace.steps().at(0)->lanes)
    for (const TraceEvent& e : lane.events())
      if (e.kind == TraceKind::call) first = std::min(first, e.end);
  return first;
}

std::int64_t bytes_of(const fs::path& folder) {
  std::int64_t sum = 0;
  for (const fs::directory_entry& e : fs::directory_iterator(folder)) sum += static_cast<std::int64_t>(e.file_size());
  return sum;
}

class AotStart {
 public:
  AotStart(const SyntheticDecoder& decoder, Device device, fs::path folder, std::string& trouble)
      : decoder_(decoder), folder_(std::move(folder)), trouble_(trouble) {
    options_.device = device;
    options_.context = 512;
    // One chunk is one row: no plan of a prompt is looked for.
    options_.chunk = 1;
  }

  /// A session with the cache. Returns milliseconds to the first op.
  double run() {
    const std::int64_t begin = TraceLane::now();
    AotOptions cache;
    cache.folder = folder_;
    cache.warn = [this](const std::string& text) { trouble_ = text; };
    options_.aot = std::make_shared<AotCache>(cache);
    Decoder session(loaded(decoder_), options_);
    Trace trace;
    session.set_trace(&trace);
    const std::int32_t token = 1;
    session.step({&token, 1});
    options_.aot->flush();
    from_disk_ = session.stats().passes == 0 && session.stats().packed_tensors == 0;
    return static_cast<double>(first_call(trace) - begin) / 1e6;
  }
  bool from_disk() const { return from_disk_; }

 private:
  const SyntheticDecoder& decoder_;
  DecoderOptions options_;
  fs::path folder_;
  std::string& trouble_;
  bool from_disk_ = false;
};

}  // namespace

AotBench bench_aot(const fs::path& folder, std::int64_t mib, std::int64_t repetitions, Device device) {
  AotBench result;
  std::error_code error;
  const fs::space_info room = fs::space(folder, error);
  if (const std::int64_t most = 2 * (mib + 128); !error && room.available >> 20 < static_cast<std::uintmax_t>(most)) {
    result.reason = fmt::format("{} has {} MiB of room, {} are needed", folder.string(), room.available >> 20, most);
    return result;
  }
  const WorkFolder work(folder, "rlx-bench-aot-");
  const SyntheticDecoder decoder(shape_of(mib), work.path() / "weights");
  AotStart start(decoder, device, work.path() / "cache", result.reason);
  start.run();
  if (result.reason.empty()) result.bytes = bytes_of(work.path() / "cache");
  if (result.reason.empty() && result.bytes < (mib << 20) / 2) result.reason = "this device packs no weights";
  std::vector<double> times;
  for (std::int64_t i = 0; i < repetitions && result.reason.empty(); ++i) {
    times.push_back(start.run());
    if (!start.from_disk()) result.reason = "the artefact was not used";
  }
  if (!result.reason.empty()) return result;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  result.load_ms = times[times.size() / 2];
  return result;
}

}  // namespace rlx
