// BERT (https://arxiv.org/abs/1810.04805): token, position and segment embeddings, then layers of attention and MLP
// with the norm after each sum. Heads that a checkpoint adds for a task are not read; its pooler is.
#include <cmath>

#include "base/error.h"
#include "flow/blocks/embedding.h"
#include "flow/blocks/encoder_attention.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/pooling.h"
#include "flow/blocks/position_embedding.h"
#include "flow/blocks/residual.h"
#include "models/encoder.h"
#include "models/load.h"

namespace rlx {
namespace {

constexpr TensorName kBertTensors[] = {
    {"tokens", "embeddings.word_embeddings", "token_embd"},
    {"positions", "embeddings.position_embeddings", "position_embd"},
    {"token_types", "embeddings.token_type_embeddings", "token_types"},
    {"embedding_norm", "embeddings.LayerNorm", "token_embd_norm"},
    {"wq", "encoder.layer.{}.attention.self.query", "blk.{}.attn_q"},
    {"wk", "encoder.layer.{}.attention.self.key", "blk.{}.attn_k"},
    {"wv", "encoder.layer.{}.attention.self.value", "blk.{}.attn_v"},
    {"wo", "encoder.layer.{}.attention.output.dense", "blk.{}.attn_output"},
    {"attention_norm", "encoder.layer.{}.attention.output.LayerNorm", "blk.{}.attn_output_norm"},
    {"up", "encoder.layer.{}.intermediate.dense", "blk.{}.ffn_up"},
    {"down", "encoder.layer.{}.output.dense", "blk.{}.ffn_down"},
    {"mlp_norm", "encoder.layer.{}.output.LayerNorm", "blk.{}.layer_output_norm"},
    {"pooler", "pooler.dense", "pooler"},
};

struct BertConfig {
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, positions = 0, token_types = 0;
  float eps = 1e-12f;
  Act act = Act::gelu;
};

/// Rows of a table that the checkpoint has: GGUF files name neither vocabulary nor segments.
std::int64_t table_rows(const FamilyInput& in, const std::string& tensor) {
  const WeightRef* table = in.weights->find(tensor);
  return table != nullptr && table->shape.size() == 2 ? table->shape[0] : 0;
}

BertConfig read_bert(const FamilyInput& in, const TensorNames& names) {
  const ConfigFields fields(in);
  constexpr FieldName kHeads{"num_attention_heads", "attention.head_count"};
  BertConfig c;
  c.layers = fields.count({"num_hidden_layers", "block_count"}, fields.layers());
  c.hidden = fields.count({"hidden_size", "embedding_length"});
  c.heads = fields.count(kHeads, fields.heads());
  check_heads(fields, kHeads, c.heads, c.hidden);
  c.inner = fields.count({"intermediate_size", "feed_forward_length"});
  c.positions = fields.count({"max_position_embeddings", "context_length"});
  c.eps = fields.epsilon({"layer_norm_eps", "attention.layer_norm_epsilon"}, 1e-12);
  c.vocab = fields.count({"vocab_size", "vocab_size"}, {}, table_rows(in, names.weight("tokens")));
  c.token_types =
      fields.count({"type_vocab_size", "token_type_count"}, {}, table_rows(in, names.weight("token_types")));
  if (fields.stored()) return c;  // GGUF files of this family have no other activation
  constexpr FieldName kAct{"hidden_act", ""}, kPositions{"position_embedding_type", ""};
  c.act = fields.activation(kAct, fields.text(kAct).value_or("gelu"));
  if (const std::string kind = fields.text(kPositions).value_or("absolute"); kind != "absolute")
    fail(ErrorCode::unsupported, "{}: expected \"absolute\", found \"{}\"", fields.place(kPositions), kind);
  if (constexpr FieldName kDecoder{"is_decoder", ""}; fields.flag(kDecoder, false))
    fail(ErrorCode::unsupported, "{}: expected false, found true", fields.place(kDecoder));
  return c;
}

FlowStage bert_attention(const BertConfig& c, const TensorNames& names, std::int64_t layer) {
  const std::int64_t head_dim = c.hidden / c.heads;
  return encoder_attention({.hidden = c.hidden,
                            .heads = c.heads,
                            .kv_heads = c.heads,
                            .head_dim = head_dim,
                            .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                            .wq = names.weight("wq", layer),
                            .wk = names.weight("wk", layer),
                            .wv = names.weight("wv", layer),
                            .wo = names.weight("wo", layer),
                            .bq = names.bias("wq", layer),
                            .bk = names.bias("wk", layer),
                            .bv = names.bias("wv", layer),
                            .bo = names.bias("wo", layer)});
}

ModelFlow bert_flow(const FamilyInput& in, const BertConfig& c, const TensorNames& names) {
  const auto norm = [&](std::string_view role, std::int64_t layer = 0) {
    return encoder_norm(in, names.name(role, layer), c.hidden, c.eps);
  };
  ModelFlow flow("bert");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("positions", Shape({sym::rows}, DType::i32))
      .input("token_types", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("embed_tokens", token_embedding({.weight = names.weight("tokens"), .vocab = c.vocab, .hidden = c.hidden}))
      .stage("embed_token_types", position_embedding({.weight = names.weight("token_types"),
                                                      .count = c.token_types,
                                                      .hidden = c.hidden,
                                                      .input = "token_types"}))
      .stage("embed_positions",
             position_embedding({.weight = names.weight("positions"), .count = c.positions, .hidden = c.hidden}))
      .stage("embedding_norm", norm("embedding_norm"))
      .repeat_layers(c.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("attention", bert_attention(c, names, i))
                           .stage("residual_add", residual_add())
                           .stage("attention_norm", norm("attention_norm", i))
                           .stage("residual_save", residual_save())
                           .stage("mlp", plain_mlp({.hidden = c.hidden,
                                                    .inner = c.inner,
                                                    .act = c.act,
                                                    .up = names.weight("up", i),
                                                    .down = names.weight("down", i),
                                                    .up_bias = names.bias("up", i),
                                                    .down_bias = names.bias("down", i)}))
                           .stage("residual_add", residual_add())
                           .stage("mlp_norm", norm("mlp_norm", i));
                     })
      .output("last_hidden_state")
      .when(in.weights->find(names.weight("pooler")) != nullptr, [&](ModelFlow& rest) {
        rest.stage("pooler", pool_hidden({.kind = SequencePooling::first,
                                          .weight = names.weight("pooler"),
                                          .bias = names.bias("pooler"),
                                          .hidden = c.hidden}))
            .output("pooler_output");
      });
  return flow;
}

void load_bert(const FamilyInput& in, LoadedModel& loaded) {
  const TensorNames names = names_of(in, "tokens", {"", "bert."});
  const BertConfig c = read_bert(in, names);
  loaded.model = bert_flow(in, c, names).build(in.weights);
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, ModelKind::encoder);
  info.vocab = c.vocab;
  info.hidden = c.hidden;
  info.inner = c.inner;
  info.layers = c.layers;
  info.heads = info.kv_heads = c.heads;
  info.head_dim = c.hidden / c.heads;
  info.context = c.positions;
  info.token_types = c.token_types;
}

}  // namespace

constinit const Architecture kBert = {
    .name = "bert",
    .gguf = {{"bert"}},
    .classes = {{"BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification",
                 "BertForTokenClassification", "BertForQuestionAnswering", "BertForNextSentencePrediction"}},
    .model_types = {{"bert"}},
    .hub_defaults = "{}",
    .tensors = kBertTensors,
    .load = load_bert,
};

}  // namespace rlx
