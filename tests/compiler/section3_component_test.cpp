// compiler.md, section 3: what a component is, and which keys change with what.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "compiler/component.h"
#include "compiler/profile.h"
#include "error_text.h"

namespace rlx {
namespace {

TemplateIdentity state_form() {
  TemplateIdentity t;
  t.graph = digest("graph");
  t.symbols = {sym::rows, sym::out_rows, sym::batch};
  t.weights = digest("weights");
  t.device = "cpu";
  t.features = "avx2";
  t.options = digest(CompileOptions{});
  t.build = "build 1";
  return t;
}

ModelComponent one() { return ModelComponent(ModelVariant::decode(1, 64, 1)); }

// A component with one field changed at a time, the unchanged one first.
std::vector<ModelComponent> components_changed_once() {
  const auto dispatch = [](DispatchPolicy policy, std::vector<std::string> common,
                           std::vector<std::string> native) {
    return one().with_dispatch({policy, std::move(common), std::move(native)});
  };
  CompileProfile unfused;
  unfused.fusion = false;
  const auto prefer = DispatchPolicy::prefer_native;
  return {
      one(),
      one().with_variant(ModelVariant::prefill(1, 1)),
      one().with_variant(ModelVariant::decode(2, 64, 1)),
      dispatch(DispatchPolicy::force_common, {}, {}),
      dispatch(DispatchPolicy::force_native, {}, {}),
      dispatch(prefer, {"linear"}, {}),
      dispatch(prefer, {}, {"linear"}),
      dispatch(prefer, {"linear", "softmax"}, {}),
      dispatch(prefer, {"linearsoftmax"}, {}),
      dispatch(prefer, {"linear"}, {"softmax"}),
      one().with_profile_key(digest("another profile")),
      one().with_profile(unfused),
      one().with_quant(QuantScheme{DType::q4_0}),
      one().with_quant(QuantScheme{DType::q8_0}),
      one().with_quant(QuantScheme{DType::q8_0, 64}),
      one().with_layers(LayerComposition::single("decoder")),
      one().with_layers(LayerComposition::homogeneous("decoder", 2)),
      one().with_layer_composition_key(Digest{}),
  };
}

TEST(section3_component, EveryFieldChangesTheCacheKey) {
  std::vector<ModelComponent> all = components_changed_once();
  all.push_back(one().with_mode(CompilationMode::Eager));
  all.push_back(one().with_mode(CompilationMode::Aot));
  all.push_back(one().with_variant(ModelVariant::decode(1, 65, 1)));
  std::set<Digest> keys;
  for (const ModelComponent& c : all) keys.insert(c.cache_key());
  EXPECT_EQ(keys.size(), all.size());
}

TEST(section3_component, SettersMakeACopyAndSetOneField) {
  const ModelComponent base = one();
  const Digest key = base.cache_key();
  const ModelComponent changed = base.with_mode(CompilationMode::Aot)
                                     .with_quant(QuantScheme{DType::q4_0})
                                     .with_layers(LayerComposition::single("a"));
  EXPECT_EQ(base.cache_key(), key);
  EXPECT_EQ(changed.mode(), CompilationMode::Aot);
  EXPECT_EQ(changed.quant(), QuantScheme{DType::q4_0});
  EXPECT_EQ(changed.layer_composition_key(), LayerComposition::single("a").digest());
  EXPECT_EQ(changed.dim_binding(), base.variant().dim_binding());
  EXPECT_EQ(changed.with_mode(CompilationMode::Lazy)
                .with_quant(std::nullopt)
                .with_layer_composition_key(std::nullopt)
                .cache_key(),
            key);
}

TEST(section3_component, DefaultsSpelledOutDoNotChangeTheKey) {
  EXPECT_EQ(one().with_profile(CompileProfile{}).cache_key(), one().cache_key());
  EXPECT_EQ(one().with_quant(QuantScheme{DType::q4_0, 32}).cache_key(),
            one().with_quant(QuantScheme{DType::q4_0}).cache_key());
}

TEST(section3_component, OrderAndRepetitionOfDispatchListsDoNotMatter) {
  std::mt19937 random(3);
  std::vector<std::string> ops = {"linear", "rms_norm", "rope", "softmax", "swiglu"};
  KernelDispatchConfig config;
  config.force_common = ops;
  config.force_native = ops;
  const Digest key = one().with_dispatch(config).cache_key();
  for (int i = 0; i < 50; ++i) {
    std::shuffle(ops.begin(), ops.end(), random);
    config.force_common = ops;
    config.force_common.push_back(ops[random() % 5]);
    std::shuffle(ops.begin(), ops.end(), random);
    config.force_native = ops;
    EXPECT_EQ(one().with_dispatch(config).cache_key(), key);
  }
}

TEST(section3_component, TheModeIsNoPartOfTheExecutable) {
  std::set<Digest> executable;
  std::set<std::string> artefact;
  for (const CompilationMode mode :
       {CompilationMode::Eager, CompilationMode::Lazy, CompilationMode::Aot}) {
    executable.insert(one().with_mode(mode).executable_key(state_form()));
    artefact.insert(one().with_mode(mode).aot_disk_name(state_form()));
  }
  EXPECT_EQ(executable.size(), 1u);
  EXPECT_EQ(artefact.size(), 1u);
}

TEST(section3_component, EveryOtherFieldChangesTheExecutableKey) {
  const std::vector<ModelComponent> all = components_changed_once();
  std::set<Digest> keys;
  for (const ModelComponent& c : all) keys.insert(c.executable_key(state_form()));
  EXPECT_EQ(keys.size(), all.size());
}

TEST(section3_component, EveryFieldOfTheTemplateChangesTheExecutableKey) {
  std::vector<TemplateIdentity> all(9, state_form());
  all[1].graph = digest("another graph");
  all[2].weights = digest("other weights");
  all[3].weights = Digest{};
  all[4].device = "cuda:0";
  all[5].features = "avx512";
  all[6].options = digest("other options");
  all[7].build = "build 2";
  all[8].symbols.push_back(sym::past_seq);
  std::set<Digest> keys;
  std::set<std::string> bases;
  for (const TemplateIdentity& t : all) {
    keys.insert(one().executable_key(t));
    bases.insert(one().aot_disk_base(t));
  }
  EXPECT_EQ(keys.size(), all.size());
  // The base has no binding, so the template that differs in its symbols alone has the same.
  EXPECT_EQ(bases.size(), all.size() - 1);
}

TEST(section3_component, DecodesOfAllPastLengthsShareAnExecutableInTheStateForm) {
  TemplateIdentity functional = state_form();
  functional.symbols.push_back(sym::past_seq);
  std::set<Digest> state_keys, functional_keys;
  for (std::int64_t past = 0; past < 50; ++past) {
    const ModelComponent c(ModelVariant::decode(1, past, 1));
    state_keys.insert(c.executable_key(state_form()));
    functional_keys.insert(c.executable_key(functional));
  }
  EXPECT_EQ(state_keys.size(), 1u);
  EXPECT_EQ(functional_keys.size(), 50u);
}

TEST(section3_component, SymbolsOfTheTemplateHaveNoOrder) {
  TemplateIdentity t = state_form();
  t.symbols = {sym::batch, sym::out_rows, sym::rows, sym::batch};
  EXPECT_EQ(one().executable_key(t), one().executable_key(state_form()));
}

TEST(section3_component, SizesOfOneBucketShareAnExecutable) {
  TemplateIdentity t = state_form();
  t.buckets.set(sym::rows, BucketRule::list({16, 512}));
  const auto of = [&](std::int64_t seq) { return ModelComponent(ModelVariant::prefill(1, seq)); };
  EXPECT_EQ(of(17).executable_binding(t).text(), "batch=1,out_rows=1,rows=512");
  EXPECT_EQ(of(17).executable_key(t), of(512).executable_key(t));
  EXPECT_EQ(of(17).aot_disk_name(t), of(512).aot_disk_name(t));
  EXPECT_NE(of(16).executable_key(t), of(17).executable_key(t));
  // The policy itself is not in the key: the same bounds are the same executable.
  EXPECT_EQ(of(512).executable_key(t), of(512).executable_key(state_form()));
  EXPECT_EQ(test::error_text(ErrorCode::limit, [&] { (void)of(513).executable_key(t); }),
            "symbol \"rows\": expected a size of at most 512, the last bucket, found 513");
}

TEST(section3_component, ArtefactNamesAreSafeAndPartedByTheBinding) {
  TemplateIdentity t = state_form();
  t.device = "../we__ird:7\n";
  const ModelComponent a(ModelVariant::prefill(1, 8)), b(ModelVariant::prefill(1, 9));
  const std::string base = a.aot_disk_base(t);
  EXPECT_EQ(base.substr(0, base.size() - 32), "prefill----we--ird-7--");
  EXPECT_EQ(base, b.aot_disk_base(t));
  EXPECT_EQ(a.aot_disk_name(t), base + "__" + a.executable_binding(t).digest().hex());
  EXPECT_NE(a.aot_disk_name(t), b.aot_disk_name(t));
}

// Made by another process, as in section2_variant.
TEST(section3_component, KeysAreTheSameInEveryProcess) {
  const ModelComponent full = one()
                                  .with_mode(CompilationMode::Aot)
                                  .with_quant(QuantScheme{DType::q4_K})
                                  .with_layers(LayerComposition::homogeneous("layers", 32));
  EXPECT_EQ(one().cache_key().hex(), "5217815c0a47d7905959569e0dbd0fa1");
  EXPECT_EQ(full.cache_key().hex(), "1c249f0a6bed04e626d1a2f0229d205c");
  EXPECT_EQ(full.executable_key(state_form()).hex(), "3f61d29ab6a87552df5a0b13cf747ef6");
  EXPECT_EQ(full.aot_disk_base(state_form()), "decode-cpu-9dfa73d7f6d4050c9d20773340e89b90");
}

TEST(section3_component, ANewSchemaChangesEveryKey) {
  for (const ModelComponent& c : components_changed_once()) {
    KeyWriter now("component"), next("component", kKeySchema + 1);
    c.write_key(now);
    c.write_key(next);
    EXPECT_EQ(now.finish(), c.cache_key());
    EXPECT_NE(next.finish(), c.cache_key());
    KeyWriter run_now("executable"), run_next("executable", kKeySchema + 1);
    c.write_executable_key(run_now, state_form());
    c.write_executable_key(run_next, state_form());
    EXPECT_EQ(run_now.finish(), c.executable_key(state_form()));
    EXPECT_NE(run_next.finish(), c.executable_key(state_form()));
  }
}

TEST(section3_component, OptionsThatChangeNoExecutableAreNotInTheirDigest) {
  CompileOptions a, b;
  b.verify_each_pass = !a.verify_each_pass;
  EXPECT_EQ(digest(a), digest(b));
  std::vector<CompileOptions> all(10);
  all[1].fusion = false;
  all[2].disabled_passes = {"cse"};
  all[3].dispatch.policy = DispatchPolicy::force_common;
  all[4].precision.activations = Activations::int8;
  all[5].precision.kv = DType::f16;
  all[6].dispatch.force_native = {"linear"};
  all[7].alignment = 128;
  all[8].budget = 1 << 20;
  all[9].dispatch.fast = true;
  std::set<Digest> digests;
  for (const CompileOptions& o : all) digests.insert(digest(o));
  EXPECT_EQ(digests.size(), all.size());
}

using Names = std::vector<std::string>;

TEST(section3_layers, ExpandToNamedStages) {
  const auto single = LayerComposition::single("encoder");
  const auto layers = LayerComposition::homogeneous("model.layers", 3);
  EXPECT_EQ(single.stages(), Names{"encoder"});
  EXPECT_EQ(layers.stages(), (Names{"model.layers.0", "model.layers.1", "model.layers.2"}));
  EXPECT_EQ(LayerComposition::homogeneous("layers", 1).stages(), Names{"layers.0"});
  EXPECT_EQ(LayerComposition::pair("embed", "head").stages(), (Names{"embed", "head"}));
  EXPECT_EQ(LayerComposition::sequence(
                {LayerComposition::single("embed"), layers, LayerComposition::single("head")})
                .stages(),
            (Names{"embed", "model.layers.0", "model.layers.1", "model.layers.2", "head"}));
}

TEST(section3_layers, ALayerThatComesAgainIsNumberedOn) {
  const auto local = LayerComposition::homogeneous("local", 2);
  const auto global = LayerComposition::single("global");
  EXPECT_EQ(LayerComposition::sequence({local, global, local, global}).stages(),
            (Names{"local.0", "local.1", "global.0", "local.2", "local.3", "global.1"}));
}

TEST(section3_layers, DigestsAreEqualExactlyWhenTheStagesAre) {
  std::mt19937 random(4);
  const auto random_part = [&] {
    const std::string layer(1, static_cast<char>('a' + random() % 2));
    return random() % 2 == 0 ? LayerComposition::single(layer)
                             : LayerComposition::homogeneous(layer, 1 + random() % 2);
  };
  std::map<Names, Digest> digest_of;
  std::set<Digest> digests;
  for (int i = 0; i < 2000; ++i) {
    std::vector<LayerComposition> parts;
    for (unsigned n = 1 + random() % 4; n > 0; --n) parts.push_back(random_part());
    // Nesting has no meaning of its own.
    auto c = LayerComposition::sequence(parts);
    if (parts.size() == 3 && random() % 2 == 0)
      c = LayerComposition::pair(parts[0], LayerComposition::pair(parts[1], parts[2]));
    EXPECT_EQ(digest_of.try_emplace(c.stages(), c.digest()).first->second, c.digest());
    EXPECT_EQ(static_cast<std::size_t>(c.size()), c.stages().size());
    const Names stages = c.stages();
    EXPECT_EQ(std::set<std::string>(stages.begin(), stages.end()).size(), stages.size());
    digests.insert(c.digest());
  }
  EXPECT_EQ(digests.size(), digest_of.size());
  EXPECT_GT(digests.size(), 50u);
}

TEST(section3_layers, BadCompositionsAreErrors) {
  const auto invalid = [](const std::function<void()>& run) {
    return test::error_text(ErrorCode::invalid_argument, run);
  };
  const std::string name_fault =
      "layer composition: expected a layer's name of letters, digits, \"_\" and \"-\" in dotted "
      "parts, the last no number, found ";
  for (const char* bad : {"", "layers.0", "7", ".a", "a.", "a..b", "a/b"})
    EXPECT_EQ(invalid([&] { LayerComposition::single(bad); }), name_fault + '"' + bad + '"');
  EXPECT_EQ(invalid([] { LayerComposition::homogeneous("layers", 0); }),
            "layer composition: expected a count of at least 1 for \"layers\", found 0");
  EXPECT_EQ(invalid([] { LayerComposition::sequence({}); }),
            "layer composition: expected at least one part, found none");
  const auto many = LayerComposition::homogeneous("layers", LayerComposition::kMostStages);
  EXPECT_EQ(test::error_text(ErrorCode::limit, [&] { LayerComposition::pair(many, many); }),
            "layer composition: expected at most 65536 stages, found more at \"layers\"");
}

}  // namespace
}  // namespace rlx
