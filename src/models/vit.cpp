// ViT (https://arxiv.org/abs/2010.11929): patches as rows, a class token before them, learned positions, then pre-norm
// layers.
#include <tuple>

#include "base/error.h"
#include "flow/blocks/patch_embedding.h"
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
  EncoderSizes sizes;
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
  constexpr FieldName kPool{"pooler_act", ""};
  VitConfig c;
  c.sizes = read_encoder_sizes(fields);
  c.qkv_bias = fields.flag({"qkv_bias", ""}, true);
  c.patches = read_patches(fields, names, c.sizes.hidden);
  if (const std::string act = fields.text(kPool).value_or("tanh"); act != "tanh")
    fail(ErrorCode::unsupported, "{}: expected \"tanh\", found \"{}\"", fields.place(kPool), act);
  return c;
}

ModelFlow vit_flow(const FamilyInput& in, const VitConfig& c, const TensorNames& names) {
  const EncoderSizes& sizes = c.sizes;
  const auto norm = [&](std::string_view role, std::int64_t layer = 0) {
    return encoder_norm(in, names.name(role, layer), sizes.hidden, sizes.eps);
  };
  const PatchEmbeddingSpec& p = c.patches;
  ModelFlow flow("vit");
  flow.input("pixels", Shape({sym::batch, p.channels, p.height, p.width}, DType::f32))
      .input("seq_start", Shape({Dim(sym::batch) + Dim(1)}, DType::i32))
      .stage("embed_patches", patch_embedding(p))
      .repeat_layers(sizes.layers,
                     [&](ModelFlow& layer, std::int64_t i) {
                       layer.stage("residual_save", residual_save())
                           .stage("attention_norm", norm("attention_norm", i))
                           .stage("attention", encoder_self_attention(names, sizes, i, c.qkv_bias))
                           .stage("residual_add", residual_add())
                           .stage("residual_save", residual_save())
                           .stage("mlp_norm", norm("mlp_norm", i))
                           .stage("mlp", encoder_mlp(names, sizes, i))
                           .stage("residual_add", residual_add());
                     })
      .stage("final_norm", norm("final_norm"))
      .output("last_hidden_state");
  add_pooler(flow, in, names, sizes.hidden);
  return flow;
}

void load_vit(const FamilyInput& in, LoadedModel& loaded) {
  const TensorNames names = names_of(in, "patches", {"", "vit."});
  const VitConfig c = read_vit(in, names);
  loaded.model = vit_flow(in, c, names).build(in.weights);
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, ModelKind::vision, c.sizes);
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
