// rlx doctor: what the machine and the program can do.
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/version.h"
#include "runtime/backends.h"

namespace rlx::cli {
namespace {

using nlohmann::ordered_json;

std::string_view name(HugePages h) {
  constexpr std::string_view names[] = {"unknown", "never", "madvise", "always"};
  return names[static_cast<std::size_t>(h)];
}

ordered_json levels(const CpuFeatures& f) {
  ordered_json list = {"baseline"};
  if (f.avx2) list.push_back("avx2");
  if (f.avx512) list.push_back("avx512");
  if (f.amx) list.push_back("amx");
  return list;
}

ordered_json devices() {
  ordered_json list = ordered_json::array();
  for (const Device& d : available_devices()) {
    const Backend& backend = find_backend(d);
    list.push_back({{"device", d.text()},
                    {"features", backend.features()},
                    {"kernels", backend.kernels().size()}});
  }
  return list;
}

ordered_json report() {
  const CpuFeatures& f = cpu_features();
  const CpuLimits limits = cpu_limits();
  const MemoryInfo memory = memory_info();
  ordered_json environment = ordered_json::object();
  for (const EnvironmentSetting& s : environment_settings())
    environment[s.name] = s.value.empty() ? ordered_json(nullptr) : ordered_json(s.value);
  return {{"version", version_number()},
          {"compiler", compiler_text()},
          {"cpu",
           {{"model", f.model},
            {"features",
             {{"avx2", f.avx2},
              {"avx_vnni", f.avx_vnni},
              {"avx512", f.avx512},
              {"avx512_bf16", f.avx512_bf16},
              {"amx", f.amx}}},
            {"levels", levels(f)}}},
          {"threads",
           {{"logical", limits.logical},
            {"physical", limits.physical},
            {"nodes", limits.nodes},
            {"quota", limits.quota},
            {"default", limits.threads}}},
          {"memory",
           {{"total", memory.total},
            {"available", memory.available},
            {"huge_pages", name(memory.huge_pages)}}},
          {"devices", devices()},
          {"environment", environment}};
}

std::string text(const ordered_json& j) {
  std::string t = fmt::format("rlx {} ({})\n", j["version"].get<std::string>(),
                              j["compiler"].get<std::string>());
  t += fmt::format("processor   {}\n", j["cpu"]["model"].get<std::string>());
  std::string features;
  for (const auto& [key, on] : j["cpu"]["features"].items())
    if (on.get<bool>()) features += (features.empty() ? "" : ", ") + key;
  t += fmt::format("features    {}\n", features.empty() ? "none above x86-64-v2" : features);
  std::vector<std::string> names = j["cpu"]["levels"].get<std::vector<std::string>>();
  t += fmt::format("levels      {} (RLX_ISA chooses a lower one)\n", fmt::join(names, ", "));
  const int nodes = j["threads"]["nodes"].get<int>();
  const double quota = j["threads"]["quota"].get<double>();
  t += fmt::format("threads     {} by default: {} cores, {} logical processors, {} memory node{}{}\n",
                   j["threads"]["default"].get<int>(), j["threads"]["physical"].get<int>(),
                   j["threads"]["logical"].get<int>(), nodes, nodes == 1 ? "" : "s",
                   quota > 0 ? fmt::format(", a quota of {:.2f}", quota) : "");
  const auto gib = [&](const char* key) { return j["memory"][key].get<double>() / (1 << 30); };
  t += fmt::format("memory      {:.1f} GiB, {:.1f} GiB available; huge pages: {}\n", gib("total"),
                   gib("available"), j["memory"]["huge_pages"].get<std::string>());
  for (const ordered_json& d : j["devices"])
    t += fmt::format("device      {} ({}), {} kernels\n", d["device"].get<std::string>(),
                     d["features"].get<std::string>(), d["kernels"].get<std::size_t>());
  for (const EnvironmentSetting& s : environment_settings())
    t += fmt::format("environment {} = {} (valid: {})\n", s.name,
                     s.value.empty() ? "unset" : one_line(s.value), s.valid);
  return t;
}

Job declare_doctor(Arguments& a) {
  const auto json = std::make_shared<bool>(false);
  a.flag("--json", *json, "JSON instead of words");
  return [json] {
    const ordered_json r = report();
    if (*json)
      write_json(r);
    else
      out().write(text(r));
    return 0;
  };
}

}  // namespace

const Command kDoctor = {"doctor", "What this machine and this build can do",
                         "  rlx doctor\n  rlx doctor --json\n", declare_doctor};

}  // namespace rlx::cli
