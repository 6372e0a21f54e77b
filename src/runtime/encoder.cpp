#include "runtime/encoder.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "ir/buckets.h"
#include "runtime/kernel_profile.h"
#include "runtime/threads.h"

namespace rlx {
namespace {

Tensor ids_tensor(std::span<const std::int32_t> values) {
  return Tensor::from({static_cast<std::int64_t>(values.size())}, values);
}

/// Rows of a batch as the graphs take them.
struct BatchRows {
  std::vector<std::int32_t> tokens, positions, token_types, starts = {0};

  void add(const TokenSequence& s) {
    const std::size_t n = s.tokens.size();
    tokens.insert(tokens.end(), s.tokens.begin(), s.tokens.end());
    for (std::size_t i = 0; i < n; ++i) positions.push_back(static_cast<std::int32_t>(i));
    if (s.token_types.empty())
      token_types.insert(token_types.end(), n, 0);
    else
      token_types.insert(token_types.end(), s.token_types.begin(), s.token_types.end());
    if (tokens.size() > INT32_MAX) fail(ErrorCode::limit, "a batch of more than {} tokens", INT32_MAX);
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  /// Sequences begin .. end - 1.
  BatchRows part(std::size_t begin, std::size_t end) const {
    const std::int32_t from = starts[begin], to = starts[end];
    const auto rows_of = [&](const std::vector<std::int32_t>& v) {
      return std::vector<std::int32_t>(v.begin() + from, v.begin() + to);
    };
    BatchRows some{rows_of(tokens), rows_of(positions), rows_of(token_types), {0}};
    for (std::size_t i = begin; i < end; ++i) some.starts.push_back(starts[i + 1] - from);
    return some;
  }
  std::int64_t batch() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
};

void check_ids(std::span<const std::int32_t> ids, std::int64_t count, std::string_view what, std::size_t sequence) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= count)
      fail(ErrorCode::invalid_argument, "sequence {}, {} {}: expected 0 to {}, found {}", sequence, what, i, count - 1,
           ids[i]);
}

// Rows of one step. A batch is cut at sequences: what a layer leaves is then still in the caches when the next one
// reads it (MiniLM, 32 texts of 128 tokens, two Zen 5 threads, in turn: bf16 151 -> 124 ms, f32 237 -> 216).
constexpr std::int64_t kStepRows = 512;

/// The matrices that `of` gives of each part, one below the other.
template <typename F>
Tensor joined_tensor(const std::vector<HiddenRows>& parts, F of) {
  std::int64_t rows = 0;
  for (const HiddenRows& part : parts) rows += of(part).dims()[0];
  Tensor all = Tensor::unset({rows, of(parts[0]).dims()[1]});
  std::byte* at = all.mutable_data();
  for (const HiddenRows& part : parts) {
    std::memcpy(at, of(part).data(), static_cast<std::size_t>(of(part).byte_size()));
    at += of(part).byte_size();
  }
  return all;
}

/// The rows of steps, one after the other.
HiddenRows joined(std::vector<HiddenRows> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  HiddenRows all;
  all.starts = {0};
  for (const HiddenRows& part : parts)
    for (std::size_t i = 1; i < part.starts.size(); ++i)
      all.starts.push_back(all.starts.back() + part.starts[i] - part.starts[i - 1]);
  all.rows = joined_tensor(parts, [](const HiddenRows& h) -> const Tensor& { return h.rows; });
  if (parts[0].pooled)
    all.pooled = joined_tensor(parts, [](const HiddenRows& h) -> const Tensor& { return *h.pooled; });
  return all;
}

}  // namespace

std::span<const float> HiddenRows::sequence(std::int64_t i) const {
  if (i < 0 || i >= batch()) fail(ErrorCode::invalid_argument, "sequence {}: expected 0 to {}", i, batch() - 1);
  const auto hidden = static_cast<std::size_t>(rows.dims()[1]);
  const auto begin = static_cast<std::size_t>(starts[static_cast<std::size_t>(i)]),
             end = static_cast<std::size_t>(starts[static_cast<std::size_t>(i) + 1]);
  return rows.as<float>().subspan(begin * hidden, (end - begin) * hidden);
}

struct EncoderModel::Impl {
  LoadedModel loaded;
  EncoderOptions options;
  std::unique_ptr<ModelCompilePipeline> pipeline;
  HirSource encoder, decoder;
  DispatchReport encoder_report, decoder_report;
  // Plans are made for powers of two, so that all batches together need a handful of executables; what a run computes
  // are its actual rows.
  const BucketRule ladder = BucketRule::ladder(1);
  StepWork work;  // of the last run of the encoder
  bool profiling = false;
  std::vector<std::shared_ptr<CompiledGraph>> profiled;

  Impl(LoadedModel m, const EncoderOptions& o)
      : loaded(std::move(m)),
        options(o),
        pipeline(ModelCompilePipeline::with_capacity(o.device, o.entries)),
        encoder(KeyWriter("graph").text("part", "encoder").finish(), [this] { return loaded.model; }),
        decoder(KeyWriter("graph").text("part", "decoder").finish(), [this] { return loaded.decoder; }) {
    if (info().kind == ModelKind::decoder)
      fail(ErrorCode::unsupported,
           "{}: {} is a decoder that continues a text; expected an encoder (rlx::Decoder runs it)",
           loaded.path.string(), info().architecture);
    options.threads = resolve_threads(o.threads);
    pipeline->set_session({options.threads, 0});
    encoder_report = pipeline->build_template(encoder, options.compile).dispatch;
    if (info().kind == ModelKind::seq2seq) decoder_report = pipeline->build_template(decoder, options.compile).dispatch;
  }

  const ModelInfo& info() const { return loaded.model.info; }

  void require_kind(bool holds, std::string_view expected) const {
    if (!holds)
      fail(ErrorCode::unsupported, "{}: {} is of the kind {}; expected {}", loaded.path.string(), info().architecture,
           name(info().kind), expected);
  }

  void check(const TokenSequence& s, std::size_t i) const {
    if (s.tokens.empty()) fail(ErrorCode::invalid_argument, "sequence {}: expected at least one token", i);
    const auto n = static_cast<std::int64_t>(s.tokens.size());
    if (info().context > 0 && n > info().context)
      fail(ErrorCode::limit, "sequence {}: {} tokens do not fit the model's {} positions", i, n, info().context);
    check_ids(s.tokens, info().vocab, "token", i);
    if (s.token_types.empty()) return;
    if (info().token_types == 0)
      fail(ErrorCode::invalid_argument, "sequence {}: {} has no token types", i, info().architecture);
    if (s.token_types.size() != s.tokens.size())
      fail(ErrorCode::invalid_argument, "sequence {}: expected a token type for each of {} tokens, found {}", i, n,
           s.token_types.size());
    check_ids(s.token_types, info().token_types, "token type", i);
  }

  BatchRows rows_of(std::span<const TokenSequence> batch) const {
    if (batch.empty()) fail(ErrorCode::invalid_argument, "a batch without a sequence: expected at least one");
    BatchRows rows;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      check(batch[i], i);
      rows.add(batch[i]);
    }
    return rows;
  }

  std::shared_ptr<CompiledGraph> executable(const HirSource& source, const ModelVariant& variant) {
    std::shared_ptr<CompiledGraph> graph = pipeline->get_or_compile_component(
        ModelComponent(variant).with_dispatch(options.compile.dispatch), source, options.compile);
    if (profiling && std::find(profiled.begin(), profiled.end(), graph) == profiled.end()) {
      graph->set_profile(true);
      profiled.push_back(graph);
    }
    return graph;
  }

  void set_profile(bool on) {
    for (const std::shared_ptr<CompiledGraph>& graph : profiled) graph->set_profile(false);
    profiled.clear();
    profiling = on;
  }

  HiddenRows hidden_of(std::vector<NamedTensor> outputs, std::vector<std::int32_t> starts) const {
    HiddenRows hidden;
    hidden.starts = std::move(starts);
    for (NamedTensor& t : outputs) {
      if (t.name == "last_hidden_state")
        hidden.rows = std::move(t.tensor);
      else if (t.name == "pooler_output")
        hidden.pooled = std::move(t.tensor);
    }
    return hidden;
  }

  HiddenRows run(std::span<const TokenSequence> batch) {
    require_kind(info().kind != ModelKind::vision, "a model of token sequences (run_images takes pixels)");
    const BatchRows all = rows_of(batch);  // checked as a whole before anything runs
    work = {};
    std::vector<HiddenRows> parts;
    for (std::size_t begin = 0, end = 0; begin < batch.size(); begin = end) {
      while (end < batch.size() && (end == begin || all.starts[end + 1] - all.starts[begin] <= kStepRows)) ++end;
      parts.push_back(run_step(all.part(begin, end)));
    }
    return joined(std::move(parts));
  }

  HiddenRows run_step(BatchRows rows) {
    const ModelVariant variant = ModelVariant::encoder(ladder.upper(sym::batch, rows.batch()), 0)
                                     .with_rows(ladder.upper(sym::rows, rows.rows()));
    const std::shared_ptr<CompiledGraph> graph = executable(encoder, variant);
    std::vector<NamedTensor> inputs;
    for (const BindingEntry& e : graph->manifest().inputs) {
      if (e.name == "tokens") inputs.push_back({e.name, ids_tensor(rows.tokens)});
      if (e.name == "positions") inputs.push_back({e.name, ids_tensor(rows.positions)});
      if (e.name == "token_types") inputs.push_back({e.name, ids_tensor(rows.token_types)});
      if (e.name == "seq_start") inputs.push_back({e.name, ids_tensor(rows.starts)});
    }
    std::vector<NamedTensor> outputs = graph->run(inputs);
    work += graph->work();
    return hidden_of(std::move(outputs), std::move(rows.starts));
  }

  HiddenRows run_images(const Tensor& pixels) {
    require_kind(info().kind == ModelKind::vision, "a model of images (run takes tokens)");
    check_pixels(pixels);
    const std::vector<std::int64_t>& dims = pixels.dims();
    // Maps of a convolutional model fill the caches with one image.
    const std::int64_t at_once = info().image_rows > 0 ? std::max<std::int64_t>(1, kStepRows / info().image_rows) : 1;
    const std::int64_t image_bytes = pixels.byte_size() / dims[0];
    work = {};
    std::vector<HiddenRows> parts;
    for (std::int64_t first = 0; first < dims[0]; first += at_once) {
      std::vector<std::int64_t> some = dims;
      some[0] = std::min(at_once, dims[0] - first);
      parts.push_back(run_image_step(Tensor::borrow(
          some, DType::f32,
          {pixels.data() + first * image_bytes, static_cast<std::size_t>(some[0] * image_bytes)})));
    }
    return joined(std::move(parts));
  }

  HiddenRows run_image_step(const Tensor& pixels) {
    const std::vector<std::int64_t>& dims = pixels.dims();
    const std::int64_t batch = dims[0];
    ModelVariant variant = ModelVariant::encoder(ladder.upper(sym::batch, batch), info().image_rows);
    if (info().image_rows == 0)
      variant = variant.with_extra(Symbol::named("height"), dims[2]).with_extra(Symbol::named("width"), dims[3]);
    const std::shared_ptr<CompiledGraph> graph = executable(encoder, variant);
    std::vector<NamedTensor> inputs = {{"pixels", pixels}};
    if (info().image_rows > 0) inputs.push_back({"seq_start", ids_tensor(starts_of(batch, info().image_rows))});
    HiddenRows hidden = hidden_of(graph->run(inputs), {});
    work += graph->work();
    hidden.starts = starts_of(batch, hidden.rows.dims()[0] / batch);
    return hidden;
  }

  void check_pixels(const Tensor& pixels) const {
    const std::vector<std::int64_t>& dims = pixels.dims();
    const bool any = info().image_height == 0;
    const auto fits = [&](std::size_t axis, std::int64_t own) { return own > 0 ? dims[axis] == own : dims[axis] >= 1; };
    if (pixels.dtype() != DType::f32 || dims.size() != 4 || dims[0] < 1 || !fits(1, info().channels) ||
        !fits(2, info().image_height) || !fits(3, info().image_width))
      fail(ErrorCode::shape, "pixels: expected f32[batch, {}, {}, {}] with at least one image, found {}",
           info().channels, any ? "height" : std::to_string(info().image_height),
           any ? "width" : std::to_string(info().image_width), pixels.text());
    const std::int64_t places = info().image_rows > 0 ? info().image_rows : dims[2] * dims[3];  // rows, or more
    if (require(checked_mul(dims[0], places), "rows") > INT32_MAX)
      fail(ErrorCode::limit, "a batch of more than {} rows", INT32_MAX);
  }

  static std::vector<std::int32_t> starts_of(std::int64_t batch, std::int64_t rows) {
    std::vector<std::int32_t> starts;
    for (std::int64_t i = 0; i <= batch; ++i) starts.push_back(static_cast<std::int32_t>(i * rows));
    return starts;
  }

  void check_source(const HiddenRows& source) const {
    const std::vector<std::int64_t>& dims = source.rows.dims();
    if (source.starts.empty() || dims.size() != 2 || dims[1] != info().hidden || source.rows.dtype() != DType::f32 ||
        source.starts.front() != 0 || source.starts.back() != dims[0] ||
        !std::is_sorted(source.starts.begin(), source.starts.end()))
      fail(ErrorCode::shape,
           "source: expected the rows f32[rows, {}] of this model's encoder and where they begin, found {}",
           info().hidden, source.rows.text());
  }

  Tensor decode(const HiddenRows& source, std::span<const TokenSequence> targets, Wanted wanted) {
    require_kind(info().kind == ModelKind::seq2seq, "a model with a decoder (seq2seq)");
    check_source(source);
    if (static_cast<std::int64_t>(targets.size()) != source.batch())
      fail(ErrorCode::invalid_argument, "targets: expected one for each of {} sources, found {}", source.batch(),
           targets.size());
    const BatchRows rows = rows_of(targets);
    std::vector<std::int32_t> out(static_cast<std::size_t>(wanted == Wanted::all ? rows.rows() : rows.batch()));
    if (wanted == Wanted::all)
      std::iota(out.begin(), out.end(), 0);
    else
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = rows.starts[i + 1] - 1;
    const Symbol source_rows = Symbol::named("source_rows");
    const ModelVariant variant =
        ModelVariant::inference(ladder.upper(sym::batch, rows.batch()), 0)
            .with_rows(ladder.upper(sym::rows, rows.rows()))
            .with_extra(sym::out_rows, ladder.upper(sym::out_rows, static_cast<std::int64_t>(out.size())))
            .with_extra(source_rows, ladder.upper(source_rows, source.rows.dims()[0]));
    return executable(decoder, variant)
        ->run({{"tokens", ids_tensor(rows.tokens)},
               {"seq_start", ids_tensor(rows.starts)},
               {"source", source.rows},
               {"source_start", ids_tensor(source.starts)},
               {"out_rows", ids_tensor(out)}})[0]
        .tensor;
  }

  std::vector<std::int32_t> generate(std::span<const std::int32_t> tokens, std::int64_t max_tokens) {
    require_kind(info().kind == ModelKind::seq2seq, "a model with a decoder (seq2seq)");
    const TokenSequence source_tokens{tokens, {}};
    const HiddenRows source = run({&source_tokens, 1});
    std::vector<std::int32_t> target = {static_cast<std::int32_t>(info().start_token)};
    const std::vector<std::int32_t>& ends = loaded.hints.eos;
    for (std::int64_t i = 0; i < max_tokens; ++i) {
      const TokenSequence so_far{target, {}};
      const Tensor logits = decode(source, {&so_far, 1}, Wanted::last);
      const std::span<const float> row = logits.as<float>();
      const auto best = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
      if (std::find(ends.begin(), ends.end(), best) != ends.end()) break;
      target.push_back(best);
    }
    target.erase(target.begin());
    return target;
  }
};

EncoderModel::EncoderModel(LoadedModel model, const EncoderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(model), options)) {}
EncoderModel::EncoderModel(EncoderModel&&) noexcept = default;
EncoderModel::~EncoderModel() = default;

const ModelInfo& EncoderModel::info() const { return impl_->info(); }
const LoadedModel& EncoderModel::model() const { return impl_->loaded; }
const EncoderOptions& EncoderModel::options() const { return impl_->options; }
int EncoderModel::threads() const { return impl_->options.threads; }
HiddenRows EncoderModel::run(std::span<const TokenSequence> batch) { return impl_->run(batch); }
HiddenRows EncoderModel::run_images(const Tensor& pixels) { return impl_->run_images(pixels); }
Tensor EncoderModel::decode(const HiddenRows& source, std::span<const TokenSequence> targets, Wanted wanted) {
  return impl_->decode(source, targets, wanted);
}
std::vector<std::int32_t> EncoderModel::generate(std::span<const std::int32_t> source, std::int64_t max_tokens) {
  return impl_->generate(source, max_tokens);
}
const DispatchReport& EncoderModel::dispatch() const { return impl_->encoder_report; }
const DispatchReport& EncoderModel::decoder_dispatch() const { return impl_->decoder_report; }
PipelineStatistics EncoderModel::statistics() const { return impl_->pipeline->statistics(); }

StepWork EncoderModel::work() const { return impl_->work; }
void EncoderModel::set_profile(bool on) { impl_->set_profile(on); }
std::vector<KernelTime> EncoderModel::profile() const {
  std::vector<KernelTime> list;
  for (const std::shared_ptr<CompiledGraph>& graph : impl_->profiled) graph->add_times(list);
  std::sort(list.begin(), list.end(), [](const KernelTime& a, const KernelTime& b) { return a.us > b.us; });
  return list;
}

}  // namespace rlx
