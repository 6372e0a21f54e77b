// Goldens of tiny models, through the same decoder as `run`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "runtime/generate.h"
#include "runtime/verify.h"
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

struct Cases {
  double tolerance = 0;
  std::string kind;
};

Cases read_cases(const fs::path& folder) {
  const fs::path path = folder / "cases.json";
  const nlohmann::json json = nlohmann::json::parse(read_file(path, 1u << 20), nullptr, false);
  if (!json.is_object()) fail(ErrorCode::format, "{}: expected a JSON object", path.string());
  const auto tolerance = json.find("tolerance");
  if (tolerance == json.end() || !tolerance->is_number())
    fail(ErrorCode::format, "{}: tolerance: expected a number, found {}", path.string(),
         tolerance == json.end() ? "nothing" : tolerance->type_name());
  const auto kind = json.find("kind");
  // quality.md, section 4: the widest tolerance of a golden is far below 1.
  const double most = tolerance->get<double>();
  if (!(most >= 0 && most <= 1))
    fail(ErrorCode::format, "{}: tolerance: expected 0 to 1, found {}", path.string(), most);
  return {most,
          kind != json.end() && kind->is_string() ? kind->get<std::string>() : "decoder"};
}

/// Runs the cases of one folder on one decoder and keeps the worst.
class Checker {
 public:
  Checker(Decoder& decoder, const ReferenceTensors& tensors, GoldenResult& result)
      : decoder_(decoder), tensors_(tensors), result_(result) {}

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
    float scale = 1;
    for (const float v : expected) scale = std::max(scale, std::abs(v));
    std::size_t at = 0;
    for (std::size_t done = 0; done < tokens.size(); done += static_cast<std::size_t>(piece)) {
      const std::size_t n = std::min(static_cast<std::size_t>(piece), tokens.size() - done);
      for (const float v : decoder_.step(tokens.subspan(done, n), Decoder::Want::all)) {
        const double diff = std::abs(static_cast<double>(v) - expected[at++]) / scale;
        if (!(diff <= std::numeric_limits<float>::max())) {
          result_.diff = std::numeric_limits<double>::quiet_NaN();  // differs from everything, and stays
          return fault(stem, "logits that are not finite");
        }
        result_.diff = std::max(result_.diff, diff);
        if (diff > result_.tolerance)
          note(fmt::format("{} in pieces of {}: {:.3g}", stem, piece, diff));
      }
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
    if (got.reason == FinishReason::error) return fault(stem, got.error);
    for (std::size_t i = 0; i < count && margins[i] >= kCloseMargin; ++i)
      if (i >= got.ids.size() || got.ids[i] != outputs[from + i])
        return fault(stem, fmt::format("token {}: expected {}, found {}", i, outputs[from + i],
                                       i < got.ids.size() ? std::to_string(got.ids[i])
                                                          : "the end of the context"));
  }

  void fault(const std::string& stem, const std::string& what) {
    failed_ = true;
    note(fmt::format("{}: {}", stem, what));
  }
  void note(std::string why) {
    if (result_.why.empty()) result_.why = std::move(why);
  }

 public:
  bool failed() const { return failed_; }
  bool compared() const { return compared_; }

 private:
  Decoder& decoder_;
  const ReferenceTensors& tensors_;
  GoldenResult& result_;
  bool failed_ = false, compared_ = false;
};

void count_kernels(const DispatchReport& report, GoldenResult& result) {
  result.native = report.count(DispatchKind::native);
  result.common = report.count(DispatchKind::common);
  result.reference = report.count(DispatchKind::reference);
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
  const Cases cases = read_cases(folder);
  GoldenResult result;
  result.name = (folder.filename().empty() ? folder.parent_path() : folder).filename().string();
  result.tolerance = options.tolerance.value_or(cases.tolerance);
  if (cases.kind != "decoder")
    fail(ErrorCode::unsupported, "{}: kind \"{}\": only decoders are supported yet",
         (folder / "cases.json").string(), cases.kind);
  DecoderOptions decoder_options = options.decoder;
  decoder_options.compile.precision = Precision{Activations::f32, std::nullopt};
  Decoder decoder(load_model(folder), decoder_options);
  count_kernels(decoder.dispatch(), result);

  const ReferenceTensors tensors(folder / "cases.safetensors");
  const std::vector<std::string> stems = tensors.stems(".input_ids");
  if (stems.empty())
    fail(ErrorCode::format, "{}: expected tensors NAME.input_ids, found none", tensors.path());
  Checker checker(decoder, tensors, result);
  for (const std::string& stem : stems) checker.check(stem);
  if (!checker.compared())
    fail(ErrorCode::format, "{}: expected NAME.logits or NAME.output_ids beside NAME.input_ids, found none",
         tensors.path());
  // Where bodies are asked for, the ops in them may run as their reference.
  const bool needs_kernels =
      decoder.options().device != Device::reference() &&
      decoder.options().compile.dispatch.policy != DispatchPolicy::force_common;
  if (needs_kernels && result.reference > 0 && result.why.empty())
    result.why = fmt::format("{} nodes have no kernel on {}", result.reference,
                             decoder.options().device.text());
  result.ok = !checker.failed() && result.diff <= result.tolerance &&
              !(needs_kernels && result.reference > 0);
  return result;
}

}  // namespace rlx
