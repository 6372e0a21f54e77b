#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <system_error>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/hub_config.h"
#include "models/lora.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "base_model.model.", kA = ".lora_A.weight", kB = ".lora_B.weight",
                           kAlpha = "lora_alpha";

Tensor widened_factor(const SafetensorsFile& file, const SafetensorsTensor& t) {
  if (t.shape.size() != 2 || !(t.dtype == DType::f32 || t.dtype == DType::f16 || t.dtype == DType::bf16))
    fail(ErrorCode::format, "{}: {}: expected a matrix of f32, f16 or bf16, found {} of rank {}", file.path(), t.name,
         name(t.dtype), t.shape.size());
  Tensor value = Tensor::zeros(t.shape);
  decoder(t.dtype)(t.data.data(), value.mutable_as<float>().data(), value.elements());
  return value;
}

// A scale is an f32.
bool is_alpha(double v) { return v > 0 && v <= double{std::numeric_limits<float>::max()}; }

std::optional<double> alpha_of_metadata(const SafetensorsFile& file) {
  const auto at = file.metadata().find(std::string(kAlpha));
  if (at == file.metadata().end()) return {};
  double alpha = 0;
  const char* end = at->second.data() + at->second.size();
  if (std::from_chars(at->second.data(), end, alpha).ptr != end || !is_alpha(alpha))
    fail(ErrorCode::format, "{}: lora_alpha: expected a finite number above 0, found \"{}\"", file.path(), at->second);
  return alpha;
}

// What PEFT can say in adapter_config.json and changes the result of an adapter, but is not computed here.
void check_plain(const HubConfig& config) {
  for (const std::string_view key : {"alpha_pattern", "rank_pattern"})
    if (const auto pattern = config.object(key); pattern && !pattern->json().empty())
      fail(ErrorCode::unsupported, "{}: {}: expected one value for all products, found {} patterns", config.file(), key,
           pattern->json().size());
  if (config.flag("fan_in_fan_out").value_or(false))
    fail(ErrorCode::unsupported, "{}: fan_in_fan_out: expected false, found true", config.file());
  if (const std::string bias = config.text("bias").value_or("none"); bias != "none")
    fail(ErrorCode::unsupported, "{}: bias: expected \"none\", found \"{}\"", config.file(), bias);
}

std::optional<double> alpha_of_config(const HubConfig& config) {
  const auto at = config.json().find(std::string(kAlpha));
  if (at == config.json().end()) return {};
  if (!at->is_number() || !is_alpha(at->get<double>()))
    fail(ErrorCode::format, "{}: lora_alpha: expected a finite number above 0", config.file());
  return at->get<double>();
}

// A file that names its alpha needs no config; what stands beside it may be another adapter's.
float scale_of(const SafetensorsFile& file, const fs::path& config, bool folder, std::int64_t rank) {
  const std::optional<double> own = alpha_of_metadata(file);
  const auto r = static_cast<double>(rank);
  std::error_code ignored;
  if ((!own || folder) && fs::is_regular_file(config, ignored)) {
    const HubConfig peft = HubConfig::from_file(config);
    check_plain(peft);
    const std::optional<double> alpha = own ? own : alpha_of_config(peft);
    const bool by_root = !own && peft.flag("use_rslora").value_or(false);
    return alpha ? static_cast<float>(*alpha / (by_root ? std::sqrt(r) : r)) : 1.0f;
  }
  return own ? static_cast<float>(*own / r) : 1.0f;
}

}  // namespace

LoraAdapter LoraAdapter::read(const fs::path& path) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  const SafetensorsFile file(folder ? path / "adapter_model.safetensors" : path);
  const fs::path config = (folder ? path : path.parent_path()) / "adapter_config.json";
  std::map<std::string, LoraFactors> found;
  for (const SafetensorsTensor& t : file.tensors()) {
    const bool is_a = t.name.ends_with(kA), is_b = t.name.ends_with(kB);
    if (!t.name.starts_with(kPrefix) || !(is_a || is_b))
      fail(ErrorCode::format, "{}: expected names like {}MODULE{}, found \"{}\"", file.path(), kPrefix, kA, t.name);
    const std::string module = t.name.substr(kPrefix.size(), t.name.size() - kPrefix.size() - kA.size());
    LoraFactors& f = found[module];
    f.module = module;
    (is_a ? f.a : f.b) = widened_factor(file, t);
  }
  if (found.empty()) fail(ErrorCode::format, "{}: expected LoRA factors, found no tensor", file.path());
  LoraAdapter adapter;
  for (auto& [module, f] : found) {
    if (f.a.dims().empty() || f.b.dims().empty())
      fail(ErrorCode::format, "{}: {}: expected lora_A and lora_B, found one of them", file.path(), module);
    if (adapter.rank == 0) adapter.rank = f.a.dims()[0];
    if (adapter.rank < 1 || f.a.dims()[0] != adapter.rank || f.b.dims()[1] != adapter.rank)
      fail(ErrorCode::format, "{}: {}: expected rank {} as of the others, found {} and {}", file.path(), module,
           adapter.rank, f.a.text(), f.b.text());
    adapter.factors.push_back(std::move(f));
  }
  adapter.scale = scale_of(file, config, folder, adapter.rank);
  return adapter;
}

void LoraAdapter::write(const fs::path& path) const {
  SafetensorsWriter writer;
  writer.set_metadata("format", "pt");
  writer.set_metadata(kAlpha, fmt::format("{}", double{scale} * static_cast<double>(rank)));
  for (const LoraFactors& f : factors) {
    const std::string module = std::string(kPrefix) + f.module;
    writer.add(module + std::string(kA), DType::f32, f.a.dims(), std::as_bytes(f.a.as<float>()));
    writer.add(module + std::string(kB), DType::f32, f.b.dims(), std::as_bytes(f.b.as<float>()));
  }
  writer.write(path);
}

}  // namespace rlx
