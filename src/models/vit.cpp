// ViT (https://arxiv.org/abs/2010.11929): patches as rows, a class token before them, learned positions, then pre-norm
// layers.
#include <cmath>
#include <tuple>

#include "base/error.h"
#include "flow/blocks/encoder_attention.h"
#include "flow/blocks/mlp.h"
#include "flow/blocks/patch_embedding.h"
#include "flow/blocks/pooling.h"
#include "flow/blocks/residual.h"
#include "models/encoder.h"
#include "models/load.h"

namespace rlx {
namespace {

constexpr TensorName kVitTensors[] = {
    {"class_token", "embeddings.cls_token", ""},
    {"positions", "embeddings.position_embeddings", ""},
    {"patches", "embeddings.patch_embeddings.projection", ""},
    {"attention_norm", "encoder.layer.{}.layernorm_before", ""},
    {"wq", "encoder.layer.{}.attention.attention.query", ""},
    {"wk", "encoder.layer.{}.attention.attention.key", ""},
    {"wv", "encoder.layer.{}.attention.attention.value", ""},
    {"wo", "encoder.layer.{}.attention.output.dense", ""},
    {"mlp_norm", "encoder.layer.{}.layernorm_after", ""},
    {"up", "encoder.layer.{}.intermediate.dense", ""},
    {"down", "encoder.layer.{}.output.dense", ""},
    {"final_norm", "layernorm", ""},
    {"pooler", "pooler.dense", ""},
};

struct VitConfig {
  std::int64_t hidden = 0, inner = 0, layers = 0, heads = 0;
  float eps = 1e-12f;
  Act act = Act::gelu;
  bool qkv_bias = true;
  PatchEmbeddingSpec patches;
};

PatchEmbeddingSpec read_patches(const ConfigFields& fields, const TensorNames& names, std::int64_t hidden) {
  constexpr FieldName kImage{"image_size", ""}, kPatch{"patch_size", ""};
  PatchEmbeddingSpec p;
  p.weight = names.weight("patches");
  p.bias = names.bias("patches");
  p.class_token = names.name("class_token");
  p.positions = names.name("positions");
  p.hidden = hidden;
  p.channels = fields.count({"num_channels", ""}, {1, 1 << 16}, 3);
  std::tie(p.height, p.width) = fields.height_width(kImage, 224);
  std::tie(p.patch_height, p.patch_width) = fields.height_width(kPatch, 16);
  if (p.height % p.patch_height != 0 || p.width % p.patch_width != 0)
    fail(ErrorCode::format, "{}: expected multiples of the patches of {} x {} pixels, found {} x {}",
         fields.place(kImage), p.patch_height, p.patch_width, p.height, p.width);
  return p;
}

VitConfig read_vit(const FamilyInput& in, const TensorNames& names) {
  const ConfigFields fields(in);
  constexpr FieldName kHeads{"num_attention_heads", ""}, kAct{"hidden_act", ""}, kPool{"pooler_act", ""};
  VitConfig c;
  c.layers = fields.count({"num_hidden_layers", ""}, fields.layers());
  c.hidden = fields.count({"hidden_size", ""});
  c.heads = fields.count(kHeads, fields.heads());
  check_heads(fields, kHeads, c.heads, c.hidden);
  c.inner = fields.count({"intermediate_size", ""});
  c.eps = fields.epsilon({"layer_norm_eps", ""}, 1e-12);
  c.act = fields.activation(kAct, fields.text(kAct).value_or("gelu"));
  c.qkv_bias = fields.flag({"qkv_bias", ""}, true);
  c.patches = read_patches(fields, names, c.hidden);
  if (const std::string act = fields.text(kPool).value_or("tanh"); act != "tanh")
    fail(ErrorCode::unsupported, "{}: expected \"tanh\", found \"{}\"", fields.place(kPool), act);
  return c;
}

FlowStage vit_attention(const VitConfig& c, const TensorNames& names, std::int64_t layer) {
  const std::int64_t head_dim = c.hidden / c.heads;
  const auto bias = [&](std::string_view role) { return c.qkv_bias ? names.bias(role, layer) : std::string(); };
  return encoder_attention({.hidden = c.hidden,
                            .heads = c.heads,
                            .kv_heads = c.heads,
                            .head_dim = head_dim,
                            .scale = 1.0f / std::sqrt(static_cast<float>(head_dim)),
                            .wq = names.weight("wq", layer),
                            .wk = names.weight("wk", layer),
                            .wv = names.weight("wv", layer),
                            .wo = names.weight("wo", layer),
                            .bq = bias("wq"),
                            .bk = bias("wk"),
                            .bv = bias("wv"),
                            .bo = names.bias("wo", layer)});
}

ModelFlow vit_flow(const FamilyInput& in, const VitConfig& c, const TensorNames& names) {
  const auto norm = [&](std::string_view role, std::int64_t layer = 0) {
    return encoder_norm(in, names.name(role, layer), c.hidden, c.eps);
  };
  const PatchEmbeddingSpec& p = c.patches;
  ModelFlow flow("vit");
  flow.input("pixels", Shape({sym::batch, p.channels, p.height, p.width}, DType::f32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("embed_patches", patch_embedding(p))
      .repeat_layers(c.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("attention_norm", norm("attention_norm", i))
                           .stage("attention", vit_attention(c, names, i))
                           .stage("residual_add", residual_add())
                           .stage("residual_save", residual_save())
                           .stage("mlp_norm", norm("mlp_norm", i))
                           .stage("mlp", plain_mlp({.hidden = c.hidden,
                                                    .inner = c.inner,
                                                    .act = c.act,
                                                    .up = names.weight("up", i),
                                                    .down = names.weight("down", i),
                                                    .up_bias = names.bias("up", i),
                                                    .down_bias = names.bias("down", i)}))
                           .stage("residual_add", residual_add());
                     })
      .stage("final_norm", norm("final_norm"))
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

void load_vit(const FamilyInput& in, LoadedModel& loaded) {
  const TensorNames names = names_of(in, "patches", {"", "vit."});
  const VitConfig c = read_vit(in, names);
  loaded.model = vit_flow(in, c, names).build(in.weights);
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, ModelKind::vision);
  info.hidden = c.hidden;
  info.inner = c.inner;
  info.layers = c.layers;
  info.heads = info.kv_heads = c.heads;
  info.head_dim = c.hidden / c.heads;
  info.channels = c.patches.channels;
  info.image_height = c.patches.height;
  info.image_width = c.patches.width;
  info.image_rows = c.patches.rows();
}

}  // namespace

constinit const Architecture kVit = {
    .name = "vit",
    .gguf = {},
    .classes = {{"ViTModel", "ViTForImageClassification", "ViTForMaskedImageModeling"}},
    .model_types = {{"vit"}},
    .hub_defaults = "{}",
    .tensors = kVitTensors,
    .load = load_vit,
};

}  // namespace rlx
