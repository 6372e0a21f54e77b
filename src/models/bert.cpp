// BERT (https://arxiv.org/abs/1810.04805): token, position and segment embeddings, then layers of attention and MLP
// with the norm after each sum. Heads that a checkpoint adds for a task are not read; its pooler is.
#include "base/error.h"
#include "flow/blocks/embedding.h"
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
  EncoderSizes sizes;
  std::int64_t vocab = 0, positions = 0, token_types = 0;
};

/// Rows of a table that the checkpoint has: GGUF files name neither vocabulary nor segments.
std::int64_t table_rows(const FamilyInput& in, const std::string& tensor) {
  const WeightRef* table = in.weights->find(tensor);
  return table != nullptr && table->shape.size() == 2 ? table->shape[0] : 0;
}

BertConfig read_bert(const FamilyInput& in, const TensorNames& names) {
  const ConfigFields fields(in);
  BertConfig c;
  c.sizes = read_encoder_sizes(fields);
  c.positions = fields.count({"max_position_embeddings", "context_length"});
  c.vocab = fields.count({"vocab_size", "vocab_size"}, {}, table_rows(in, names.weight("tokens")));
  c.token_types =
      fields.count({"type_vocab_size", "token_type_count"}, {}, table_rows(in, names.weight("token_types")));
  if (fields.stored()) return c;
  constexpr FieldName kPositions{"position_embedding_type", ""};
  if (const std::string kind = fields.text(kPositions).value_or("absolute"); kind != "absolute")
    fail(ErrorCode::unsupported, "{}: expected \"absolute\", found \"{}\"", fields.place(kPositions), kind);
  if (constexpr FieldName kDecoder{"is_decoder", ""}; fields.flag(kDecoder, false))
    fail(ErrorCode::unsupported, "{}: expected false, found true", fields.place(kDecoder));
  return c;
}

ModelFlow bert_flow(const FamilyInput& in, const BertConfig& c, const TensorNames& names) {
  const EncoderSizes& sizes = c.sizes;
  const auto norm = [&](std::string_view role, std::int64_t layer = 0) {
    return encoder_norm(in, names.name(role, layer), sizes.hidden, sizes.eps);
  };
  ModelFlow flow("bert");
  flow.input("tokens", Shape({sym::rows}, DType::i32))
      .input("positions", Shape({sym::rows}, DType::i32))
      .input("token_types", Shape({sym::rows}, DType::i32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("embed_tokens",
             token_embedding({.weight = names.weight("tokens"), .vocab = c.vocab, .hidden = sizes.hidden}))
      .stage("embed_token_types", position_embedding({.weight = names.weight("token_types"),
                                                      .count = c.token_types,
                                                      .hidden = sizes.hidden,
                                                      .input = "token_types"}))
      .stage("embed_positions",
             position_embedding({.weight = names.weight("positions"), .count = c.positions, .hidden = sizes.hidden}))
      .stage("embedding_norm", norm("embedding_norm"))
      .repeat_layers(sizes.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("attention", encoder_self_attention(names, sizes, i, true))
                           .stage("residual_add", residual_add())
                           .stage("attention_norm", norm("attention_norm", i))
                           .stage("residual_save", residual_save())
                           .stage("mlp", encoder_mlp(names, sizes, i))
                           .stage("residual_add", residual_add())
                           .stage("mlp_norm", norm("mlp_norm", i));
                     })
      .output("last_hidden_state");
  add_pooler(flow, in, names, sizes.hidden);
  return flow;
}

void load_bert(const FamilyInput& in, LoadedModel& loaded) {
  const TensorNames names = names_of(in, "tokens", {"", "bert."});
  const BertConfig c = read_bert(in, names);
  loaded.model = bert_flow(in, c, names).build(in.weights);
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, ModelKind::encoder, c.sizes);
  info.vocab = c.vocab;
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
