#include "cli/process_memory.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace rlx::cli {
namespace {

double status_mib(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream words(line.substr(key.size()));
    double kib = 0;
    words >> kib;
    return kib / 1024;
  }
  return 0;
}

}  // namespace

double resident_mib() { return status_mib("VmRSS:"); }
double peak_resident_mib() { return status_mib("VmHWM:"); }

std::string speed_text(const TextModel& model, const GenerateResult& r) {
  const std::string cached =
      r.cached_tokens > 0 ? fmt::format(" ({} of them cached)", r.cached_tokens) : "";
  return fmt::format(
      "load {:.2f} s | prompt {} tokens{}, {:.1f} tokens/s | answer {} tokens, {:.1f} tokens/s | "
      "memory {:.0f} MiB",
      model.load_ms() / 1000, r.prompt_tokens, cached, r.prompt_per_second(), r.ids.size(),
      r.decode_per_second(), resident_mib());
}

}  // namespace rlx::cli
