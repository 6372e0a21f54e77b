#include "runtime/lora_tune.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "compiler/functional_form.h"
#include "ir/rewrite.h"
#include "runtime/decoder.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

// One window: its tokens, and for each the one that follows.
struct Window {
  std::vector<NamedTensor> inputs;
};

Tensor ints(const std::vector<std::int32_t>& values) {
  return Tensor::from({static_cast<std::int64_t>(values.size())}, std::span<const std::int32_t>(values));
}

std::vector<Window> windows_of(std::span<const std::int32_t> text, std::int64_t tokens, std::int64_t most) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
  std::vector<Window> windows;
  const auto n = static_cast<std::size_t>(tokens);
  for (std::size_t at = 0; at + n < text.size() && static_cast<std::int64_t>(windows.size()) < most; at += n) {
    const std::vector<std::int32_t> now(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(at + n));
    const std::vector<std::int32_t> next(text.begin() + static_cast<std::ptrdiff_t>(at + 1),
                                         text.begin() + static_cast<std::ptrdiff_t>(at + n + 1));
    windows.push_back({{{"tokens", ints(now)},
                        {"positions", ints(positions)},
                        {"out_rows", ints(positions)},
                        {"targets", ints(next)}}});
  }
  return windows;
}

void check(const LoadedModel& model, std::span<const std::int32_t> text, const LoraTuneOptions& o) {
  const auto positive = [](std::string_view what, double value) {
    if (!(value > 0)) fail(ErrorCode::invalid_argument, "tune: {}: expected a number above 0, found {}", what, value);
  };
  positive("steps", static_cast<double>(o.steps));
  positive("tokens", static_cast<double>(o.tokens));
  positive("rank", static_cast<double>(o.rank));
  positive("alpha", double{o.alpha});
  positive("learning rate", double{o.learning_rate});
  if (o.products.empty()) fail(ErrorCode::invalid_argument, "tune: expected at least one product to adapt, found none");
  if (text.size() < 2)
    fail(ErrorCode::invalid_argument, "tune: expected a text of at least two tokens, found {}", text.size());
  for (const std::int32_t id : text)
    if (id < 0 || id >= model.model.info.vocab)
      fail(ErrorCode::invalid_argument, "tune: expected tokens from 0 to {}, found {}", model.model.info.vocab - 1, id);
}

// The model with trainable factors, and its loss as the one output; sizes bound.
Graph loss_graph(const BuiltModel& model, std::span<const LoraNames> names, const LoraTuneOptions& o,
                 std::int64_t tokens) {
  Graph graph = with_lora(functional_form(model.graph), names, o.rank, o.alpha / static_cast<float>(o.rank), true);
  Builder b(graph);
  b.set_origin("loss");
  const Value targets = b.input("targets", Shape({sym::out_rows}, DType::i32));
  Value logits;
  for (const Output& out : graph.outputs())
    if (out.name == "logits") logits = out.value;
  RLX_CHECK(logits, "a decoder has the output \"logits\"");
  graph.set_outputs({{"loss", cross_entropy(b, logits, targets)}});
  drop_dead(graph);
  return bind(graph, DimBinding{{sym::rows, tokens}, {sym::out_rows, tokens}, {sym::batch, 1}});
}

// Uniform in +-1 / sqrt(in), as the PEFT library begins.
Tensor first_factor(std::int64_t rank, std::int64_t in, std::uint64_t seed, std::uint64_t& drawn) {
  Tensor a = Tensor::zeros({rank, in});
  const double limit = 1.0 / std::sqrt(static_cast<double>(in));
  for (float& v : a.mutable_as<float>()) {
    v = static_cast<float>((philox_uniform(seed, drawn++) * 2 - 1) * limit);
  }
  return a;
}

double loss_of(const std::vector<NamedTensor>& outputs) { return double{outputs[0].tensor.as<float>()[0]}; }

class Tuning {
 public:
  Tuning(const LoadedModel& model, const LoraTuneOptions& options, std::int64_t tokens)
      : options_(options), targets_(lora_targets(model, options.products)), session_(options.device) {
    if (targets_.empty()) fail(ErrorCode::unsupported, "tune: {}: no product can be adapted", model.path.string());
    session_.pipeline().set_session({resolve_threads(options.threads), 0});
    std::vector<NamedTensor> factors;
    std::uint64_t drawn = 0;
    for (const LoraTarget& t : targets_) {
      names_.push_back({t.param, t.module + ".lora_A", t.module + ".lora_B"});
      factors.push_back({names_.back().a, first_factor(options.rank, t.in, options.seed, drawn)});
      factors.push_back({names_.back().b, Tensor::zeros({t.out, options.rank})});
      trained_.push_back(names_.back().a);
      trained_.push_back(names_.back().b);
    }
    values_ = start_training(std::move(factors));
    Graph loss = loss_graph(model.model, names_, options, tokens);
    forward_ = compile(model.model, loss);
    step_ = compile(model.model, training_step(std::move(loss), "loss", trained_, options.optimiser));
  }

  double step(const Window& window, std::int64_t number) {
    std::vector<NamedTensor> inputs = window.inputs;
    inputs.insert(inputs.end(), values_.values.begin(), values_.values.end());
    inputs.push_back({"adamw.schedule", adamw_schedule(options_.optimiser, options_.learning_rate, number)});
    std::vector<NamedTensor> outputs = step_->run(inputs);
    values_.advance(outputs);
    return loss_of(outputs);
  }

  double mean_loss(std::span<const Window> windows) {
    double sum = 0;
    for (const Window& w : windows) {
      std::vector<NamedTensor> inputs = w.inputs;
      for (std::size_t i = 0; i < values_.values.size(); i += 3) inputs.push_back(values_.values[i]);
      sum += loss_of(forward_->run(inputs));
    }
    return sum / static_cast<double>(windows.size());
  }

  LoraAdapter adapter() const {
    LoraAdapter adapter{options_.rank, options_.alpha / static_cast<float>(options_.rank), {}};
    for (std::size_t i = 0; i < targets_.size(); ++i)  // parameter and two moments of each factor
      adapter.factors.push_back({targets_[i].module, values_.values[6 * i].tensor,
                                 lora_rows_to_hub(targets_[i], values_.values[6 * i + 3].tensor)});
    return adapter;
  }

 private:
  std::shared_ptr<CompiledGraph> compile(const BuiltModel& model, const Graph& graph) {
    BuiltModel built = model;
    built.graph = graph;
    return session_.compile(HirSource([built = std::move(built)] { return built; }), options_.compile);
  }

  const LoraTuneOptions& options_;
  std::vector<LoraTarget> targets_;
  std::vector<LoraNames> names_;
  std::vector<std::string> trained_;
  TrainedValues values_;
  Session session_;
  std::shared_ptr<CompiledGraph> forward_, step_;
};

}  // namespace

LoraTuneResult tune_lora(const LoadedModel& model, std::span<const std::int32_t> text, const LoraTuneOptions& options) {
  check(model, text, options);
  const std::int64_t tokens = std::min(options.tokens, static_cast<std::int64_t>(text.size()) - 1);
  const std::vector<Window> windows = windows_of(text, tokens, options.steps);
  Tuning tuning(model, options, tokens);
  LoraTuneResult result;
  result.loss_before = tuning.mean_loss(windows);
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    if (options.cancelled && options.cancelled()) break;
    const std::size_t window = static_cast<std::size_t>(step - 1) % windows.size();
    result.losses.push_back(tuning.step(windows[window], step));
    if (options.progress) options.progress(step, result.losses.back());
  }
  result.loss_after = tuning.mean_loss(windows);
  result.adapter = tuning.adapter();
  return result;
}

}  // namespace rlx
