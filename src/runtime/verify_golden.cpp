// Goldens of tiny models, through the same sessions as everything else: the decoder of `run`, EncoderModel.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "runtime/generate.h"
#include "runtime/verify.h"
#include "runtime/verify_compare.h"
#include "runtime/verify_encoder.h"
#include "runtime/verify_tensors.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr double kCloseMargin = 1e-3;  // below it the reference itself is a toss-up
constexpr std::int64_t kGoldenPiece = 7;  // rows of a piece when a case runs in chunks: divides no tile

bool is_golden(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "cases.json", ignored);
}

double read_tolerance(const fs::path& folder) {
  const fs::path path = folder / "cases.json";
  const nlohmann::json json = nlohmann::json::parse(read_file(path, 1u << 20), nullptr, false);
  if (!json.is_object()) fail(ErrorCode::format, "{}: expected a JSON object", path.string());
  const auto tolerance = json.find("tolerance");
  if (tolerance == json.end() || !tolerance->is_number())
    fail(ErrorCode::format, "{}: tolerance: expected a number, found {}", path.string(),
         tolerance == json.end() ? "nothing" : tolerance->type_name());
  // quality.md, section 4: the widest tolerance of a golden is far below 1.
  const double most = tolerance->get<double>();
  if (!(most >= 0 && most <= 1))
    fail(ErrorCode::format, "{}: tolerance: expected 0 to 1, found {}", path.string(), most);
  return most;
}

/// Runs the cases of one folder on one decoder and keeps the worst.
class Checker {
 public:
  Checker(Decoder& decoder, const ReferenceTensors& tensors, GoldenComparison& comparison)
      : decoder_(decoder), tensors_(tensors), comparison_(comparison) {}

  void check(const std::string& stem) {
    const std::vector<std::int64_t> shape = tensors_.find(stem + ".input_ids", 2).shape;
    const std::vector<std::int32_t> ids = tensors_.ids(stem + ".input_ids", 2);
    if (shape[1] < 1)
      fail(ErrorCode::format, "{}: {}.input_ids: expected at least one token", tensors_.path(),
           stem);
    const auto row = static_cast<std::size_t>(shape[1]);
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      const auto tokens =
          std::span<const std::int32_t>(ids).subspan(static_cast<std::size_t>(b) * row, row);
      compared_ |= tensors_.has(stem + ".logits") || tensors_.has(stem + ".output_ids");
      if (tensors_.has(stem + ".logits")) logits(stem, tokens, b);
      if (tensors_.has(stem + ".output_ids")) greedy(stem, tokens, b);
    }
  }

 private:
  void logits(const std::string& stem, std::span<const std::int32_t> tokens, std::int64_t b) {
    const std::vector<std::int64_t>& shape = tensors_.find(stem + ".logits", 3).shape;
    const std::int64_t vocab = decoder_.info().vocab,
                       rows = static_cast<std::int64_t>(tokens.size());
    if (b >= shape[0] || shape[1] != rows || shape[2] != vocab)
      fail(ErrorCode::shape, "{}: {}.logits: expected [{}, {}, {}], found [{}, {}, {}]",
           tensors_.path(), stem, b + 1, rows, vocab, shape[0], shape[1], shape[2]);
    const std::vector<float> all = tensors_.floats(stem + ".logits", 3);
    const auto size = static_cast<std::size_t>(rows * vocab);
    const auto expected =
        std::span<const float>(all).subspan(static_cast<std::size_t>(b) * size, size);
    for (const std::int64_t piece : {rows, kGoldenPiece, std::int64_t{1}})
      compare(stem, tokens, expected, piece);
  }

  void compare(const std::string& stem, std::span<const std::int32_t> tokens,
               std::span<const float> expected, std::int64_t piece) {
    decoder_.truncate(0);
    const float scale = GoldenComparison::scale_of(expected);
    const std::string label = fmt::format("{} in pieces of {}", stem, piece);
    std::size_t at = 0;
    for (std::size_t done = 0; done < tokens.size(); done += static_cast<std::size_t>(piece)) {
      const std::size_t n = std::min(static_cast<std::size_t>(piece), tokens.size() - done);
      const std::span<const float> logits = decoder_.step(tokens.subspan(done, n), Decoder::Want::all);
      if (!comparison_.compare(label, logits, expected.subspan(at, logits.size()), scale)) return;
      at += logits.size();
    }
    RLX_CHECK(at == expected.size());
  }

  void greedy(const std::string& stem, std::span<const std::int32_t> prompt, std::int64_t b) {
    const std::int64_t length = tensors_.find(stem + ".output_ids", 2).shape[1];
    const std::vector<std::int32_t> outputs = tensors_.ids(stem + ".output_ids", 2);
    const std::vector<float> margins = tensors_.floats(stem + ".margins", 1);
    const auto from = static_cast<std::size_t>(b * length) + prompt.size();
    const std::size_t count = margins.size();
    if (static_cast<std::size_t>(length) != prompt.size() + count || from + count > outputs.size())
      fail(ErrorCode::shape,
           "{}: {}.output_ids: expected {} prompt and {} generated tokens, found {}",
           tensors_.path(), stem, prompt.size(), count, length);
    decoder_.truncate(0);
    SamplerOptions sampling;
    sampling.temperature = 0;
    Sampler sampler(sampling);
    GenerateOptions options;
    options.max_tokens = static_cast<std::int64_t>(count);
    const GenerateResult got = generate(decoder_, prompt, 0, sampler, options, [](std::int32_t) {});
    if (got.reason == FinishReason::error) return comparison_.fault(stem, got.error);
    for (std::size_t i = 0; i < count && margins[i] >= kCloseMargin; ++i)
      if (i >= got.ids.size() || got.ids[i] != outputs[from + i])
        return comparison_.fault(stem, fmt::format("token {}: expected {}, found {}", i, outputs[from + i],
                                       i < got.ids.size() ? std::to_string(got.ids[i])
                                                          : "the end of the context"));
  }

 public:
  bool compared() const { return compared_; }

 private:
  Decoder& decoder_;
  const ReferenceTensors& tensors_;
  GoldenComparison& comparison_;
  bool compared_ = false;
};

void count_kernels(const DispatchReport& report, GoldenResult& result) {
  result.native += report.count(DispatchKind::native);
  result.common += report.count(DispatchKind::common);
  result.reference += report.count(DispatchKind::reference);
}

void verify_decoder(LoadedModel model, const DecoderOptions& options, const ReferenceTensors& tensors,
                    GoldenComparison& comparison) {
  Decoder decoder(std::move(model), options);
  count_kernels(decoder.dispatch(), comparison.result());
  const std::vector<std::string> stems = tensors.stems(".input_ids");
  if (stems.empty())
    fail(ErrorCode::format, "{}: expected tensors NAME.input_ids, found none", tensors.path());
  Checker checker(decoder, tensors, comparison);
  for (const std::string& stem : stems) checker.check(stem);
  if (!checker.compared())
    fail(ErrorCode::format, "{}: expected NAME.logits or NAME.output_ids beside NAME.input_ids, found none",
         tensors.path());
}

void verify_encoder(LoadedModel model, const DecoderOptions& from, const ReferenceTensors& tensors,
                    GoldenComparison& comparison) {
  EncoderOptions options;
  options.device = from.device;
  options.threads = from.threads;
  options.compile = from.compile;
  EncoderModel encoder(std::move(model), options);
  count_kernels(encoder.dispatch(), comparison.result());
  count_kernels(encoder.decoder_dispatch(), comparison.result());
  check_encoder_cases(encoder, tensors, comparison);
}

}  // namespace

std::vector<fs::path> golden_folders(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    fail(ErrorCode::io, "{}: expected a folder with cases.json, found no folder", path.string());
  if (is_golden(path)) return {path};
  std::vector<fs::path> folders;
  for (const fs::directory_entry& e : fs::directory_iterator(path, error))
    if (is_golden(e.path())) folders.push_back(e.path());
  if (error) fail(ErrorCode::io, "{}: cannot be read: {}", path.string(), error.message());
  if (folders.empty())
    fail(ErrorCode::io, "{}: expected cases.json in it or in folders of it, found none",
         path.string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

GoldenResult verify_golden(const fs::path& folder, const GoldenOptions& options) {
  GoldenResult result;
  result.name = (folder.filename().empty() ? folder.parent_path() : folder).filename().string();
  const double tolerance = read_tolerance(folder);
  result.tolerance = options.tolerance.value_or(tolerance);
  DecoderOptions with = options.decoder;
  with.compile.precision = Precision{Activations::f32, std::nullopt};
  LoadedModel model = load_model(folder);
  const ReferenceTensors tensors(folder / "cases.safetensors");
  GoldenComparison comparison(result);
  if (model.model.info.kind == ModelKind::decoder)
    verify_decoder(std::move(model), with, tensors, comparison);
  else
    verify_encoder(std::move(model), with, tensors, comparison);
  // Where bodies are asked for, the ops in them may run as their reference.
  const bool needs_kernels =
      with.device != Device::reference() && with.compile.dispatch.policy != DispatchPolicy::force_common;
  if (needs_kernels && result.reference > 0 && result.why.empty())
    result.why = fmt::format("{} nodes have no kernel on {}", result.reference, with.device.text());
  result.ok =
      !comparison.failed() && result.diff <= result.tolerance && !(needs_kernels && result.reference > 0);
  return result;
}

}  // namespace rlx
