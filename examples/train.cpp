// Trains a small transformer on the bytes of a text file: forward, loss, gradients and AdamW are one compiled graph.
//   example_train TEXT [STEPS] [LOSS.svg]
#include <rlx/rlx.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/norm.h"

namespace {

using rlx::Shape;
using rlx::Value;

constexpr std::int64_t kBytes = 256, kHidden = 64, kInner = 160, kHeads = 4, kLayers = 2, kTokens = 64, kSequences = 4;
constexpr std::int64_t kRows = kTokens * kSequences;
constexpr int kHeadDim = static_cast<int>(kHidden / kHeads);

// The model, and the first values of its parameters.
class Transformer {
 public:
  explicit Transformer(rlx::Builder& builder) : b_(builder) {}

  // tokens, positions: i32[rows]; the result: f32[rows, 256].
  Value logits(Value tokens, Value positions) {
    const Value mask = rlx::causal_mask(b_, positions);
    Value x = b_(rlx::Embedding{}, weight("embedding", kBytes, kHidden, 0.5), tokens);
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string p = "layers." + std::to_string(layer) + ".";
      x = b_(rlx::Add{}, x, attention(p, b_(rlx::RmsNorm{}, x, ones(p + "attention_norm")), positions, mask));
      x = b_(rlx::Add{}, x, mlp(p, b_(rlx::RmsNorm{}, x, ones(p + "mlp_norm"))));
    }
    return b_(rlx::Linear{}, b_(rlx::RmsNorm{}, x, ones("norm")), weight("head", kBytes, kHidden));
  }

  std::vector<rlx::NamedTensor> take_parameters() { return std::move(parameters_); }

 private:
  Value attention(const std::string& p, Value x, Value positions, Value mask) {
    const rlx::Rope rope{.head_dim = kHeadDim, .rotary_dim = kHeadDim};
    const Value frequencies = inverse_frequencies();
    const Value q = b_(rope, b_(rlx::Linear{}, x, weight(p + "wq", kHidden, kHidden)), frequencies, positions);
    const Value k = b_(rope, b_(rlx::Linear{}, x, weight(p + "wk", kHidden, kHidden)), frequencies, positions);
    const Value v = b_(rlx::Linear{}, x, weight(p + "wv", kHidden, kHidden));
    const rlx::Attention op{.heads = kHeads, .scale = 1.0f / std::sqrt(static_cast<float>(kHeadDim))};
    const Value mixed = rlx::causal_attention(b_, op, kHeadDim, {q, k, v}, mask);
    return b_(rlx::Linear{}, mixed, weight(p + "wo", kHidden, kHidden));
  }

  Value mlp(const std::string& p, Value x) {
    const rlx::GatedLinear gated{.act = rlx::Act::silu};
    const Value inner = b_(gated, x, weight(p + "gate", kInner, kHidden), weight(p + "up", kInner, kHidden));
    return b_(rlx::Linear{}, inner, weight(p + "down", kHidden, kInner));
  }

  Value inverse_frequencies() {
    const Value known = b_.graph().find_source("inv_freq");
    return known ? known : b_.input("inv_freq", Shape({kHeadDim / 2}, rlx::DType::f32));
  }

  // Uniform, with the deviation that keeps the size of activations.
  Value weight(const std::string& name, std::int64_t out, std::int64_t in, double scale = 1.0) {
    rlx::Tensor t = rlx::Tensor::zeros({out, in});
    for (float& v : t.mutable_as<float>()) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      v = static_cast<float>((static_cast<double>(state_ >> 11) * 0x1p-52 - 1) * scale * std::sqrt(3.0 / double(in)));
    }
    return parameter(name, std::move(t));
  }
  Value ones(const std::string& name) {
    rlx::Tensor t = rlx::Tensor::zeros({kHidden});
    for (float& v : t.mutable_as<float>()) v = 1.0f;
    return parameter(name, std::move(t));
  }
  Value parameter(const std::string& name, rlx::Tensor first) {
    const Value v = b_.input(name, first.shape());
    parameters_.push_back({name, std::move(first)});
    return v;
  }

  rlx::Builder& b_;
  std::vector<rlx::NamedTensor> parameters_;
  std::uint64_t state_ = 1;
};

// kSequences stretches of the text from places that move on with the steps; targets are the bytes that follow.
std::vector<rlx::NamedTensor> batch_of(const std::string& text, std::int64_t step) {
  std::vector<std::int32_t> tokens, targets, positions;
  const std::size_t places = text.size() - static_cast<std::size_t>(kTokens);
  for (std::int64_t s = 0; s < kSequences; ++s) {
    const std::size_t at = static_cast<std::size_t>(step * kSequences + s) * 7919 % places;
    for (std::size_t i = 0; i < static_cast<std::size_t>(kTokens); ++i) {
      tokens.push_back(static_cast<unsigned char>(text[at + i]));
      targets.push_back(static_cast<unsigned char>(text[at + i + 1]));
      positions.push_back(static_cast<std::int32_t>(i));
    }
  }
  const auto tensor = [](const std::vector<std::int32_t>& v) {
    return rlx::Tensor::from({kRows}, std::span<const std::int32_t>(v));
  };
  return {{"tokens", tensor(tokens)}, {"positions", tensor(positions)}, {"targets", tensor(targets)}};
}

rlx::Tensor frequencies() {
  rlx::Tensor t = rlx::Tensor::zeros({kHeadDim / 2});
  for (int i = 0; i < kHeadDim / 2; ++i)
    t.mutable_as<float>()[static_cast<std::size_t>(i)] = std::pow(10000.0f, -2.0f * static_cast<float>(i) / kHeadDim);
  return t;
}

// The loss over the steps as a line, with its axes.
void write_curve(const char* path, const std::vector<double>& losses) {
  const double top = 6.0, width = 640, height = 360, left = 50, bottom = 330;
  std::ofstream svg(path);
  svg << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 380\" "
      << "font-family=\"sans-serif\" font-size=\"12\">\n"
      << "<rect width=\"700\" height=\"380\" fill=\"white\"/>\n<g stroke=\"#999\" fill=\"none\">"
      << "<path d=\"M" << left << " 20V" << bottom << "H" << width + left - 10 << "\"/></g>\n";
  for (int nats = 0; nats <= 6; nats += 2) {
    const double y = bottom - nats / top * (height - 50);
    svg << "<text x=\"20\" y=\"" << y + 4 << "\">" << nats << "</text>"
        << "<path d=\"M46 " << y << "h4\" stroke=\"#999\"/>\n";
  }
  svg << "<text x=\"300\" y=\"362\">steps (" << losses.size() << ")</text><text x=\"60\" y=\"16\">loss, nats per byte"
      << "</text>\n<polyline fill=\"none\" stroke=\"#1667b7\" stroke-width=\"1.5\" points=\"";
  for (std::size_t i = 0; i < losses.size(); ++i)
    svg << left + static_cast<double>(i) / static_cast<double>(losses.size()) * (width - 10) << ","
        << bottom - std::min(losses[i], top) / top * (height - 50) << " ";
  svg << "\"/>\n</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: example_train TEXT [STEPS] [LOSS.svg]\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.size() < 2 * kTokens) {
    std::fprintf(stderr, "%s: expected a text of at least %d bytes\n", argv[1], int{2 * kTokens});
    return 1;
  }
  const std::int64_t steps = argc > 2 ? std::atoll(argv[2]) : 200;

  rlx::Graph graph("byte_transformer");
  rlx::Builder b(graph);
  const Value tokens = b.input("tokens", Shape({kRows}, rlx::DType::i32));
  const Value positions = b.input("positions", Shape({kRows}, rlx::DType::i32));
  const Value targets = b.input("targets", Shape({kRows}, rlx::DType::i32));
  Transformer model(b);
  graph.set_outputs({{"loss", rlx::cross_entropy(b, model.logits(tokens, positions), targets)}});
  rlx::TrainedValues trained = rlx::start_training(model.take_parameters());
  std::vector<std::string> names;  // of the parameters: each is followed by its two moments
  for (std::size_t i = 0; i < trained.values.size(); i += 3) names.push_back(trained.values[i].name);

  const rlx::AdamW adamw{.beta2 = 0.99f};
  rlx::Session session(rlx::Device::cpu());
  const auto step_graph = session.compile(rlx::training_step(std::move(graph), "loss", names, adamw));
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<rlx::NamedTensor> inputs = batch_of(text, step);
    inputs.push_back({"inv_freq", frequencies()});
    inputs.push_back({"adamw.schedule", rlx::adamw_schedule(adamw, 3e-3f, step)});
    inputs.insert(inputs.end(), trained.values.begin(), trained.values.end());
    std::vector<rlx::NamedTensor> outputs = step_graph->run(inputs);
    trained.advance(outputs);
    losses.push_back(double{outputs[0].tensor.as<float>()[0]});
    if (step == 1 || step % 10 == 0) std::printf("step %lld: loss %.4f\n", static_cast<long long>(step), losses.back());
  }
  if (argc > 3) write_curve(argv[3], losses);
  const bool fell = losses.back() < 0.8 * losses.front();
  std::printf("loss %.4f -> %.4f: %s\n", losses.front(), losses.back(), fell ? "learned" : "did not learn");
  return fell ? 0 : 1;
}
