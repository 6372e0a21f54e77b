// T5 and mT5 (https://arxiv.org/abs/1910.10683): an encoder and a decoder of pre-norm layers without biases, RMS norms,
// attention without scale and with a bias by distance that all layers of a stack share.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "flow/blocks/embedding.h"
#include "flow/blocks/encoder_attention.h"
#include "flow/blocks/linear.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/norm.h"
#include "flow/blocks/relative_bias.h"
#include "flow/blocks/residual.h"
#include "flow/blocks/streams.h"
#include "models/encoder.h"
#include "models/load.h"

namespace rlx {
namespace {

constexpr TensorName kT5Tensors[] = {
    {"shared", "shared", ""},
    {"head", "lm_head", ""},
};

struct T5Config {
  std::int64_t vocab = 0, hidden = 0, inner = 0, heads = 0, head_dim = 0;
  std::int64_t encoder_layers = 0, decoder_layers = 0;
  std::int64_t buckets = 32, max_distance = 128;
  std::int64_t start_token = 0;
  float eps = 1e-6f, logit_scale = 1.0f;
  Act act = Act::relu;
  bool gated = false;
};

/// "relu", "gated-gelu", "gated-silu": the activation, and whether a second product gates it.
void read_mlp(const ConfigFields& fields, T5Config& c) {
  constexpr FieldName kName{"feed_forward_proj", ""};
  const std::string text = fields.text(kName).value_or("relu");
  constexpr std::string_view kGated = "gated-";
  c.gated = text.starts_with(kGated);
  const std::string act = c.gated ? text.substr(kGated.size()) : text;
  // Of T5 1.1 on, "gated-gelu" means the form with tanh.
  c.act = fields.activation(kName, text == "gated-gelu" ? "gelu_new" : act);
}

T5Config read_t5(const FamilyInput& in) {
  const ConfigFields fields(in);
  constexpr FieldName kDistance{"relative_attention_max_distance", ""};
  T5Config c;
  c.encoder_layers = fields.count({"num_layers", ""}, fields.layers());
  c.decoder_layers = fields.count({"num_decoder_layers", ""}, fields.layers(), c.encoder_layers);
  c.hidden = fields.count({"d_model", ""});
  c.inner = fields.count({"d_ff", ""});
  c.heads = fields.count({"num_heads", ""}, fields.heads());
  c.head_dim = fields.count({"d_kv", ""}, {1, std::max<std::int64_t>(fields.heads().most / c.heads, 1)});
  c.vocab = fields.count({"vocab_size", ""});
  c.eps = fields.epsilon({"layer_norm_epsilon", ""}, 1e-6);
  c.buckets = fields.count({"relative_attention_num_buckets", ""}, {4, 1 << 16}, 32);
  if (c.buckets % 2 != 0)
    fail(ErrorCode::format, "{}: expected an even number, found {}",
         fields.place({"relative_attention_num_buckets", ""}), c.buckets);
  c.max_distance = fields.count(kDistance, {c.buckets / 2 + 1, 1 << 20}, 128);
  c.start_token = fields.count({"decoder_start_token_id", ""}, {0, c.vocab - 1}, 0);
  // Tied heads read the embedding, whose rows are not of unit size (newer configs say so by a flag of its own).
  if (fields.flag({"scale_decoder_outputs", ""}, fields.flag({"tie_word_embeddings", ""}, true)))
    c.logit_scale = 1.0f / std::sqrt(static_cast<float>(c.hidden));
  read_mlp(fields, c);
  return c;
}

/// The stages of one stack, "encoder" or "decoder".
class T5Stack {
 public:
  T5Stack(const T5Config& c, std::string name, bool causal) : c_(c), name_(std::move(name)), causal_(causal) {}

  FlowStage norm(const std::string& tensor) const {
    return rms_norm({.weight = fmt::format("{}.{}.weight", name_, tensor), .size = c_.hidden, .eps = c_.eps});
  }
  FlowStage sub_norm(std::int64_t layer, int part) const {
    return norm(fmt::format("block.{}.layer.{}.layer_norm", layer, part));
  }
  FlowStage bias() const {
    return relative_bias({.weight = key(0, 0, "SelfAttention.relative_attention_bias"),
                          .buckets = c_.buckets,
                          .heads = c_.heads,
                          .max_distance = c_.max_distance,
                          .bidirectional = !causal_});
  }
  FlowStage self_attention(std::int64_t layer) const {
    EncoderAttentionSpec s = attention(layer, 0, "SelfAttention");
    s.causal = causal_;
    s.position_bias = "position_bias";
    return encoder_attention(std::move(s));
  }
  FlowStage cross_attention(std::int64_t layer) const {
    EncoderAttentionSpec s = attention(layer, 1, "EncDecAttention");
    s.source = "source";
    s.source_starts = "source_start";
    return encoder_attention(std::move(s));
  }
  FlowStage mlp(std::int64_t layer, int part) const {
    if (!c_.gated)
      return plain_mlp({.hidden = c_.hidden,
                        .inner = c_.inner,
                        .act = c_.act,
                        .up = key(layer, part, "DenseReluDense.wi"),
                        .down = key(layer, part, "DenseReluDense.wo")});
    MlpSpec s;
    s.hidden = c_.hidden;
    s.inner = c_.inner;
    s.act = c_.act;
    s.gate = key(layer, part, "DenseReluDense.wi_0");
    s.up = key(layer, part, "DenseReluDense.wi_1");
    s.down = key(layer, part, "DenseReluDense.wo");
    return gated_mlp(std::move(s));
  }

 private:
  std::string key(std::int64_t layer, int part, std::string_view tensor) const {
    return fmt::format("{}.block.{}.layer.{}.{}.weight", name_, layer, part, tensor);
  }
  EncoderAttentionSpec attention(std::int64_t layer, int part, const std::string& tensor) const {
    return {.hidden = c_.hidden,
            .heads = c_.heads,
            .kv_heads = c_.heads,
            .head_dim = c_.head_dim,
            .wq = key(layer, part, tensor + ".q"),
            .wk = key(layer, part, tensor + ".k"),
            .wv = key(layer, part, tensor + ".v"),
            .wo = key(layer, part, tensor + ".o")};
  }

  const T5Config& c_;
  std::string name_;
  bool causal_;
};

/// The parts of a layer in their order, each x + part(norm(x)).
class T5Layer {
 public:
  T5Layer(const T5Stack& stack, ModelFlow& flow, std::int64_t layer) : stack_(stack), flow_(flow), layer_(layer) {}

  T5Layer& sub(const std::string& name, FlowStage stage) {
    flow_.stage("residual_save", residual_save())
        .stage(name + "_norm", stack_.sub_norm(layer_, part_++))
        .stage(name, std::move(stage))
        .stage("residual_add", residual_add());
    return *this;
  }

 private:
  const T5Stack& stack_;
  ModelFlow& flow_;
  std::int64_t layer_;
  int part_ = 0;
};

FlowStage t5_embedding(const T5Config& c, const TensorNames& names) {
  return token_embedding({.weight = names.weight("shared"), .vocab = c.vocab, .hidden = c.hidden});
}

ModelFlow t5_encoder(const T5Config& c, const TensorNames& names) {
  const T5Stack stack(c, "encoder", false);
  ModelFlow flow("t5.encoder");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("embed_tokens", t5_embedding(c, names))
      .stage("position_bias", stack.bias())
      .repeat_layers(c.encoder_layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       T5Layer(stack, layer, i)
                           .sub("attention", stack.self_attention(i))
                           .sub("mlp", stack.mlp(i, 1));
                     })
      .stage("final_norm", stack.norm("final_layer_norm"))
      .output("last_hidden_state");
  return flow;
}

ModelFlow t5_decoder(const T5Config& c, const TensorNames& names, bool own_head) {
  const T5Stack stack(c, "decoder", true);
  ModelFlow flow("t5.decoder");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .input("source", Shape({Dim(Symbol::named("source_rows")), c.hidden}, DType::f32))
      .input("source_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .input("out_rows", Shape({sym::out_rows}, DType::i32))
      .stage("source", input_stream("source"))
      .stage("embed_tokens", t5_embedding(c, names))
      .stage("position_bias", stack.bias())
      .repeat_layers(c.decoder_layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       T5Layer(stack, layer, i)
                           .sub("attention", stack.self_attention(i))
                           .sub("cross_attention", stack.cross_attention(i))
                           .sub("mlp", stack.mlp(i, 2));
                     })
      .stage("wanted_rows", wanted_rows())
      .stage("final_norm", stack.norm("final_layer_norm"))
      .stage("scale", scale_hidden(c.logit_scale))
      .stage("head",
             linear({.weight = own_head ? names.weight("head") : std::string(), .in = c.hidden, .out = c.vocab}))
      .output("logits");
  return flow;
}

/// What neither graph reads, and the size of what they read together.
void join_facts(BuiltModel& encoder, const BuiltModel& decoder, const WeightSource& weights) {
  std::erase_if(encoder.unused, [&](const std::string& name) {
    return std::find(decoder.unused.begin(), decoder.unused.end(), name) == decoder.unused.end();
  });
  encoder.info.parameters = encoder.info.weight_bytes = 0;
  for (const std::string& name : weights.names()) {
    if (std::find(encoder.unused.begin(), encoder.unused.end(), name) != encoder.unused.end()) continue;
    const WeightRef* w = weights.find(name);
    std::int64_t elements = 1;
    for (const std::int64_t d : w->shape) elements *= d;
    encoder.info.parameters += elements;
    encoder.info.weight_bytes += static_cast<std::int64_t>(w->data.size());
  }
}

/// Checkpoints of the encoder alone (as text encoders of image models are) say so by their class.
bool is_encoder_alone(const HubConfig& hub) {
  const std::vector<std::string> classes = hub.texts("architectures").value_or(std::vector<std::string>{});
  return !classes.empty() && classes[0].ends_with("EncoderModel");
}

void load_t5(const FamilyInput& in, LoadedModel& loaded) {
  const TensorNames names = names_of(in, "shared", {""});
  const T5Config c = read_t5(in);
  const bool alone = is_encoder_alone(*in.hub);
  loaded.model = t5_encoder(c, names).build(in.weights);
  if (!alone) {
    const bool own_head = in.weights->find(names.weight("head")) != nullptr;
    loaded.decoder = t5_decoder(c, names, own_head).build(in.weights);
    join_facts(loaded.model, loaded.decoder, *in.weights);
  }
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, alone ? ModelKind::encoder : ModelKind::seq2seq);
  info.vocab = c.vocab;
  info.hidden = c.hidden;
  info.inner = c.inner;
  info.layers = c.encoder_layers + (alone ? 0 : c.decoder_layers);
  info.heads = info.kv_heads = c.heads;
  info.head_dim = c.head_dim;
  info.start_token = c.start_token;
}

}  // namespace

constinit const Architecture kT5 = {
    .name = "t5",
    .gguf = {},
    .classes = {{"T5ForConditionalGeneration", "MT5ForConditionalGeneration", "T5EncoderModel", "MT5EncoderModel"}},
    .model_types = {{"t5", "mt5"}},
    .hub_defaults = "{}",
    .tensors = kT5Tensors,
    .load = load_t5,
};

}  // namespace rlx
