// ResNet (https://arxiv.org/abs/1512.03385): a convolution of 7 x 7, then stages of residual blocks, each stage of half
// the size. Channels come last inside. Hidden rows are the places of the last feature map, row by row. Images may have
// any size.
#include "base/error.h"
#include "flow/blocks/convolution.h"
#include "flow/blocks/residual.h"
#include "models/encoder.h"
#include "models/load.h"
#include "ops/pool.h"
#include "ops/reduction.h"
#include "ops/shape_ops.h"

namespace rlx {
namespace {

constexpr TensorName kResnetTensors[] = {{"stem", "embedder.embedder.convolution", ""}};

struct ResnetConfig {
  std::int64_t channels = 3, stem = 64;
  std::vector<std::int64_t> widths, depths;  // of the stages
  bool bottleneck = true, halve_first_stage = false, halve_in_first_layer = false;
  Act act = Act::relu;
};

constexpr std::int64_t kMostWidth = 1 << 16, kReduction = 4;

std::vector<std::int64_t> read_list(const FamilyInput& in, const char* key, std::int64_t most) {
  const std::vector<std::int64_t> list = in.hub->integers(key);
  if (list.empty())
    fail(ErrorCode::format, "{}: {}: expected a number for each stage, found none", in.hub->file(), key);
  for (const std::int64_t n : list)
    if (n < 1 || n > most)
      fail(ErrorCode::format, "{}: {}: expected 1 to {}, found {}", in.hub->file(), key, most, n);
  return list;
}

ResnetConfig read_resnet(const FamilyInput& in) {
  const ConfigFields fields(in);
  constexpr FieldName kAct{"hidden_act", ""}, kBlock{"layer_type", ""}, kDepths{"depths", ""};
  ResnetConfig c;
  c.channels = fields.count({"num_channels", ""}, {1, kMostWidth}, 3);
  c.stem = fields.count({"embedding_size", ""}, {1, kMostWidth}, 64);
  c.widths = read_list(in, "hidden_sizes", kMostWidth);
  c.depths = read_list(in, "depths", fields.layers().most);  // no more blocks than tensors
  if (c.depths.size() != c.widths.size())
    fail(ErrorCode::format, "{}: expected a number for each of {} stages, found {}", fields.place(kDepths),
         c.widths.size(), c.depths.size());
  std::int64_t blocks = 0;
  for (const std::int64_t depth : c.depths) blocks += depth;
  if (blocks > fields.layers().most)
    fail(ErrorCode::format, "{}: expected at most {} blocks, found {}", fields.place(kDepths), fields.layers().most,
         blocks);
  const std::string block = fields.text(kBlock).value_or("bottleneck");
  if (block != "bottleneck" && block != "basic")
    fail(ErrorCode::unsupported, "{}: expected \"bottleneck\" or \"basic\", found \"{}\"", fields.place(kBlock), block);
  c.bottleneck = block == "bottleneck";
  for (const std::int64_t width : c.widths)
    if (c.bottleneck && width % kReduction != 0)
      fail(ErrorCode::format, "{}: hidden_sizes: expected multiples of {}, found {}", in.hub->file(), kReduction,
           width);
  c.halve_first_stage = fields.flag({"downsample_in_first_stage", ""}, false);
  c.halve_in_first_layer = fields.flag({"downsample_in_bottleneck", ""}, false);
  c.act = fields.activation(kAct, fields.text(kAct).value_or("relu"));
  return c;
}

/// What a residual block turns into what.
struct BlockSizes {
  std::int64_t in = 0, out = 0;
  std::int32_t stride = 1;
};

class ResnetFlow {
 public:
  ResnetFlow(const ResnetConfig& config, std::string prefix) : c_(config), prefix_(std::move(prefix)) {}

  ModelFlow build() const {
    ModelFlow flow("resnet");
    flow.input("pixels", Shape({sym::batch, c_.channels, Symbol::named("height"), Symbol::named("width")}, DType::f32))
        .stage("pixels",
               [](FlowCtx& ctx, FlowState& state) {
                 state.hidden.set(ctx.hir()(Transpose{{0, 2, 3, 1}}, state.inputs.need(ctx, "pixels")));
               })
        .stage("stem", conv_norm(spec("embedder.embedder", {c_.channels, c_.stem, 2}, 7, c_.act)))
        .stage("stem_pool", max_pool());
    std::int64_t in = c_.stem;
    for (std::size_t stage = 0; stage < c_.widths.size(); ++stage)
      flow.layer(fmt::format("stages.{}", stage), [&](ModelFlow& f) {
        const bool halves = stage > 0 || c_.halve_first_stage;
        f.repeat_layers(c_.depths[stage], [&](ModelFlow& block, std::int64_t i) {
          add_block(block, fmt::format("encoder.stages.{}.layers.{}", stage, i),
                    {in, c_.widths[stage], halves && i == 0 ? 2 : 1});
          in = c_.widths[stage];
        });
      });
    flow.stage("save_map", [](FlowCtx& ctx, FlowState& state) { state.nodes.set("map", state.hidden.need(ctx)); })
        .stage("rows", rows(in))
        .output("last_hidden_state")
        .stage("pooler", pooler(in))
        .output("pooler_output");
    return flow;
  }

 private:
  ConvNormSpec spec(const std::string& name, BlockSizes s, std::int32_t kernel, Act act) const {
    return {.weight = prefix_ + name + ".convolution.weight",
            .norm = prefix_ + name + ".normalization",
            .in = s.in,
            .out = s.out,
            .kernel = kernel,
            .stride = s.stride,
            .act = act};
  }

  void add_block(ModelFlow& flow, const std::string& name, BlockSizes s) const {
    flow.stage("residual_save", residual_save());
    if (s.in != s.out || s.stride != 1)
      flow.stage("shortcut", residual_conv_norm(spec(name + ".shortcut", s, 1, Act::none)));
    if (c_.bottleneck) {
      const std::int64_t inner = s.out / kReduction;
      const std::int32_t first = c_.halve_in_first_layer ? s.stride : 1, second = s.stride / first;
      flow.stage("reduce", conv_norm(spec(name + ".layer.0", {s.in, inner, first}, 1, c_.act)))
          .stage("conv", conv_norm(spec(name + ".layer.1", {inner, inner, second}, 3, c_.act)))
          .stage("expand", conv_norm_residual(spec(name + ".layer.2", {inner, s.out}, 1, c_.act)));
    } else {
      flow.stage("conv1", conv_norm(spec(name + ".layer.0", s, 3, c_.act)))
          .stage("conv2", conv_norm_residual(spec(name + ".layer.1", {s.out, s.out}, 3, c_.act)));
    }
  }

  /// A pool of volumes of depth height, whose last axis it leaves alone: the channels.
  static FlowStage max_pool() {
    return [](FlowCtx& ctx, FlowState& state) {
      const Pool pool{.kind = PoolKind::max,
                      .kernel = {3, 3, 1},
                      .strides = {2, 2, 1},
                      .pads_begin = {1, 1, 0},
                      .pads_end = {1, 1, 0}};
      const Value x = state.hidden.need(ctx);
      const Value volumes = ctx.hir()(expand_dims(ctx.node_shape(x), 1), x);
      const Value y = ctx.hir()(pool, volumes);
      state.hidden.set(ctx.hir()(squeeze(ctx.node_shape(y), 1), y));
    };
  }
  /// [batch, h, w, n] to [batch * h * w, n].
  static FlowStage rows(std::int64_t n) {
    return [n](FlowCtx& ctx, FlowState& state) {
      const Value map = state.hidden.need(ctx);
      const Shape shape = ctx.node_shape(map);
      state.hidden.set(ctx.hir()(Reshape{{shape.dim(0) * shape.dim(1) * shape.dim(2), n}}, map));
    };
  }
  static FlowStage pooler(std::int64_t n) {
    return [n](FlowCtx& ctx, FlowState& state) {
      const Value map = state.nodes.need(ctx, "map");
      const Shape shape = ctx.node_shape(map);
      const Value places = ctx.hir()(Reshape{{shape.dim(0), shape.dim(1) * shape.dim(2), n}}, map);
      state.hidden.set(ctx.hir()(Reduce{.kind = Reduction::mean, .axis = 1}, places));
    };
  }

  const ResnetConfig& c_;
  std::string prefix_;
};

void load_resnet(const FamilyInput& in, LoadedModel& loaded) {
  const ResnetConfig c = read_resnet(in);
  const TensorNames names = names_of(in, "stem", {"", "resnet."});
  const std::string stem = names.name("stem");
  const std::string prefix = stem.substr(0, stem.size() - kResnetTensors[0].hub.size());
  loaded.model = ResnetFlow(c, prefix).build().build(in.weights);
  ModelInfo& info = loaded.model.info;
  fill_info(info, in, ModelKind::vision);
  info.hidden = c.widths.back();
  for (const std::int64_t depth : c.depths) info.layers += depth;
  info.channels = c.channels;
}

}  // namespace

constinit const Architecture kResnet = {
    .name = "resnet",
    .gguf = {},
    .classes = {{"ResNetModel", "ResNetForImageClassification", "ResNetBackbone"}},
    .model_types = {{"resnet"}},
    .hub_defaults = "{}",
    .tensors = kResnetTensors,
    .load = load_resnet,
};

}  // namespace rlx
