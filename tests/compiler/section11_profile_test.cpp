// compiler.md, section 11: compile profiles from code, presets and TOML.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "compiler/pass.h"
#include "compiler/profile.h"
#include "error_text.h"

namespace rlx {
namespace {

CompileProfile parsed(std::string_view text) { return parse_profile_toml(text, "p.toml"); }
Digest key_of(std::string_view text) { return digest(parsed(text)); }

// The message of the Error that reading a text gives.
std::string toml_fault(std::string_view text) {
  return test::error_text(ErrorCode::format, [&] { parsed(text); });
}

constexpr std::string_view kEverything = R"(
fusion = true

[passes]
cse = false
fuse_linear_bias = true

[precision]
activations = "int8"
kv = "q8"

[quant]
weights = "q4_K"
group = 256

[backend.cpu]
tile = 64
hot = true
share = 0.5
layout = "p16"
)";

TEST(section11_profile, TomlGivesEveryField) {
  const CompileProfile p = parsed(kEverything);
  EXPECT_TRUE(p.fusion);
  EXPECT_EQ(p.passes, (std::map<std::string, bool>{{"cse", false}, {"fuse_linear_bias", true}}));
  EXPECT_EQ(p.precision, (Precision{Activations::int8, DType::q8_0}));
  EXPECT_EQ(p.quant, (QuantScheme{DType::q4_K, 256}));
  const std::map<std::string, BackendValue> backend = {{"cpu.tile", std::int64_t{64}},
                                                       {"cpu.hot", true},
                                                       {"cpu.share", 0.5},
                                                       {"cpu.layout", std::string("p16")}};
  EXPECT_EQ(p.backend, backend);
}

TEST(section11_profile, ProfileFromCodeAndFromTomlAreOne) {
  CompileProfile code;
  code.passes["cse"] = false;
  code.precision = {Activations::int8, DType::q8_0};
  code.quant = QuantScheme{DType::q4_K};
  code.backend = {{"cpu.tile", std::int64_t{64}},
                  {"cpu.hot", true},
                  {"cpu.share", 0.5},
                  {"cpu.layout", std::string("p16")}};
  EXPECT_EQ(digest(code), key_of(kEverything));
}

TEST(section11_profile, KeyDoesNotSeeOrderCommentsOrDefaults) {
  EXPECT_EQ(key_of(R"(
# The same in other words.
quant = "Q4_K"
backend.cpu = { layout = "p16", share = 5e-1, hot = true, tile = 0x40 }
precision = { kv = "q8", activations = "int8" }
passes.cse = false
)"),
            key_of(kEverything));
  const Digest none = digest(CompileProfile{});
  EXPECT_EQ(key_of(""), none);
  EXPECT_EQ(key_of("fusion = true\n[passes]\n[precision]\nactivations = \"auto\"\n[backend]\n"),
            none);
  std::string all_on = "[passes]\n";
  for (const Pass& pass : pipeline_passes()) all_on += fmt::format("{} = true\n", pass.name);
  EXPECT_EQ(key_of(all_on), none);
  EXPECT_EQ(key_of("precision.activations = 'f32'"),
            key_of("precision.activations = 'f32'\nprecision.kv = 'f32'"));
  EXPECT_EQ(key_of("fusion = false\npasses.cse = false"), key_of("fusion = false"));
}

TEST(section11_profile, EveryContentHasAKeyOfItsOwn) {
  const std::vector<std::string_view> all = {
      "",
      "fusion = false",
      "passes.cse = false",
      "passes.fuse_linear_bias = false",
      "passes.cse = false\npasses.fuse_linear_bias = false",
      "precision.activations = 'f32'",
      "precision.activations = 'bf16'",
      "precision.kv = 'f32'",
      "precision.kv = 'bf16'",
      "quant = 'q4_0'",
      "quant = 'q4_1'",
      "backend.cpu.tile = 1",
      "backend.cpu.tile = 2",
      "backend.cpu.tile = 1.0",
      "backend.cpu.tile = '1'",
      "backend.cpu.tile = true",
      "backend.tile = 1",
      "backend.cpu.tile = 1\nbackend.cpu.hot = true",
  };
  std::set<Digest> keys;
  for (const std::string_view text : all) keys.insert(key_of(text));
  EXPECT_EQ(keys.size(), all.size());
  // Made by another process.
  EXPECT_EQ(digest(CompileProfile{}).hex(), "9e46dfa1b3abf830f232266fda0b1cf0");
  EXPECT_EQ(key_of(kEverything).hex(), "db14af54a448e68e9efc2c3d668dd82b");
}

TEST(section11_profile, UnknownKeysSuggestTheNearest) {
  EXPECT_EQ(toml_fault("# a comment\nfusoin = true"),
            "p.toml:2: unknown key \"fusoin\": did you mean \"fusion\"?");
  EXPECT_EQ(toml_fault("[precision]\nkv = 'f16'\nactivation = 'f32'"),
            "p.toml:3: unknown key \"precision.activation\": did you mean "
            "\"precision.activations\"?");
  EXPECT_EQ(toml_fault("[quant]\nweigths = 'q4_0'"),
            "p.toml:2: unknown key \"quant.weigths\": did you mean \"quant.weights\"?");
  EXPECT_EQ(toml_fault("passes.fuse_gate_linear = false"),
            "p.toml:1: passes: unknown pass \"fuse_gate_linear\": did you mean "
            "\"fuse_gated_linear\"?");
  // Nothing is near: no suggestion.
  EXPECT_TRUE(toml_fault("zzzzzzzzzzzz = 1").starts_with("p.toml:1: unknown key \"zzzzzzzzzzzz\": expected one of "));
}

TEST(section11_profile, ValuesOfAnotherTypeNameBoth) {
  EXPECT_EQ(toml_fault("fusion = 'yes'"),
            "p.toml:1: fusion: expected true or false, found a string");
  EXPECT_EQ(toml_fault("fusion = 1"), "p.toml:1: fusion: expected true or false, found an integer");
  EXPECT_EQ(toml_fault("passes = ['cse']"), "p.toml:1: passes: expected a table, found an array");
  EXPECT_EQ(toml_fault("passes.cse = 0.5"),
            "p.toml:1: passes.cse: expected true or false, found a float");
  EXPECT_EQ(toml_fault("\nprecision = 'f32'"),
            "p.toml:2: precision: expected a table, found a string");
  EXPECT_EQ(toml_fault("precision.kv = 16"),
            "p.toml:1: precision.kv: expected a string, found an integer");
  EXPECT_EQ(toml_fault("quant = true"),
            "p.toml:1: quant: expected a string or a table, found a boolean");
  EXPECT_EQ(toml_fault("quant.weights = {}"),
            "p.toml:1: quant.weights: expected a string, found a table");
  EXPECT_EQ(toml_fault("quant = {weights = 'q4_0', group = '32'}"),
            "p.toml:1: quant.group: expected an integer, found a string");
  EXPECT_EQ(toml_fault("backend = 3"), "p.toml:1: backend: expected a table, found an integer");
  EXPECT_EQ(toml_fault("backend.cpu.since = 1979-05-27"),
            "p.toml:1: backend.cpu.since: expected a boolean, an integer, a float or a string, "
            "found a date or time");
  EXPECT_EQ(toml_fault("backend.cpu.tiles = [1]"),
            "p.toml:1: backend.cpu.tiles: expected a boolean, an integer, a float or a string, "
            "found an array");
}

TEST(section11_profile, ValuesThatAreNotOfferedNameThoseThatAre) {
  EXPECT_EQ(toml_fault("precision.activations = 'fp8'"),
            "p.toml:1: precision.activations: expected auto, int8, bf16 or f32, found \"fp8\"");
  EXPECT_EQ(toml_fault("precision.kv = 'q8_0'"),
            "p.toml:1: precision.kv: expected f32, f16, bf16 or q8, found \"q8_0\"");
  EXPECT_EQ(toml_fault("quant = 'int3'"),
            "p.toml:1: quant: expected a block format of weights, found \"int3\"");
  EXPECT_EQ(toml_fault("quant = 'f16'"),
            "p.toml:1: quant: expected a block format of weights, found f16");
  EXPECT_EQ(toml_fault("quant = 'xq8'"),
            "p.toml:1: quant: expected a block format of weights, found xq8");
  EXPECT_EQ(toml_fault("[quant]\nweights = 'q4_0'\ngroup = 64"),
            "p.toml:3: quant: expected a group of 32, the block of q4_0, found 64");
  EXPECT_EQ(toml_fault("[quant]\nweights = 'q4_0'\ngroup = 0"),
            "p.toml:3: quant.group: expected at least 1, found 0");
  EXPECT_EQ(toml_fault("[quant]\ngroup = 32"),
            "p.toml:1: quant: expected quant.weights, the format of the weights, found none");
  EXPECT_EQ(toml_fault("passes.precision = false"),
            "p.toml:1: passes: the pass \"precision\" is required and cannot be switched off");
  EXPECT_EQ(toml_fault("backend.cpu.share = nan"),
            "p.toml:1: backend.cpu.share: expected a finite number, found nan");
  EXPECT_EQ(toml_fault("backend.\"a.b\" = 1"),
            "p.toml:1: backend: expected a name without dots, found \"a.b\"");
}

// The words behind the line are toml++'s and differ between its versions.
TEST(section11_profile, BrokenTomlNamesTheLine) {
  for (const char* broken :
       {"\nfusion = ", "fusion = true\nfusion = true", "\n[passes", "\n= 3", "\nquant = \"q4_0"}) {
    const std::string fault = toml_fault(broken);
    EXPECT_TRUE(fault.starts_with("p.toml:2: ") && fault.size() > 15) << fault;
  }
  EXPECT_TRUE(toml_fault("\xff = 1").starts_with("p.toml:1: "));
}

// Neither reading nor dropping deep tables may use up the stack.
TEST(section11_profile, DepthIsBounded) {
  EXPECT_TRUE(toml_fault("backend.x = " + std::string(100000, '[')).starts_with("p.toml:1: "));
  std::string deep = "[backend";
  for (int i = 0; i < 1000; ++i) deep += ".a";
  EXPECT_EQ(parsed(deep + "]\nx = 1").backend.size(), 1u);
  for (int i = 0; i < 1000000; ++i) deep += ".a";
  EXPECT_EQ(toml_fault(deep + "]\nx = 1"),
            "p.toml: expected at most 4096 dots, which bound the depth of tables, found 1001000");
}

TEST(section11_profile, PresetsAreFoundByName) {
  std::set<std::string> seen;
  for (const std::string& name : profiles::names()) {
    EXPECT_NO_THROW(validate(profiles::named(name))) << name;
    seen.insert(name);
  }
  for (const char* name : {"llama_prefill", "llama_decode", "qwen3_prefill", "qwen3_decode",
                           "gemma_prefill", "gemma_decode", "encoder"})
    EXPECT_EQ(seen.count(name), 1u) << name;
  EXPECT_EQ(digest(profiles::named("encoder")), digest(profiles::encoder()));
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument, [] { profiles::named("lama_decode"); }),
            "unknown compile profile \"lama_decode\": did you mean \"llama_decode\"?");
}

TEST(section11_profile, PrefillAndDecodeShareATemplate) {
  EXPECT_EQ(digest(profiles::llama_prefill()), digest(profiles::llama_decode()));
  EXPECT_EQ(digest(profiles::qwen3_prefill()), digest(profiles::qwen3_decode()));
  EXPECT_EQ(digest(profiles::gemma_prefill()), digest(profiles::gemma_decode()));
  EXPECT_NE(digest(profiles::encoder()), digest(profiles::llama_prefill()));
}

TEST(section11_profile, EditingAProfileChangesItsKey) {
  CompileProfile p = profiles::encoder();
  const Digest before = digest(p);
  p.passes["cse"] = false;
  EXPECT_NE(digest(p), before);
  p.passes["cse"] = true;
  EXPECT_EQ(digest(p), before);
}

TEST(section11_profile, ApplyKeepsWhatTheProfileLeavesOpen) {
  CompileOptions options;
  options.disabled_passes = {"cse"};
  options.precision.kv = DType::f16;
  CompileOptions made = apply(CompileProfile{}, options);
  EXPECT_TRUE(made.fusion);
  EXPECT_EQ(made.disabled_passes, options.disabled_passes);
  EXPECT_EQ(made.precision, options.precision);

  made = apply(parsed("passes = {cse = false, fuse_linear_bias = false}\n"
                      "precision.activations = 'int8'"),
               options);
  EXPECT_EQ(made.disabled_passes, (std::vector<std::string>{"cse", "fuse_linear_bias"}));
  EXPECT_EQ(made.precision, (Precision{Activations::int8, DType::f16}));
  EXPECT_EQ(apply(parsed("precision.kv = 'q8'"), options).precision.kv, DType::f16) << "the caller fixed it";
  EXPECT_EQ(apply(parsed("precision.kv = 'q8'"), {}).precision.kv, DType::q8_0);

  options.fusion = false;
  EXPECT_FALSE(apply(CompileProfile{}, options).fusion);
  EXPECT_FALSE(apply(parsed("fusion = false"), CompileOptions{}).fusion);
}

TEST(section11_profile, WhatNothingAppliesIsAnErrorAndNotIgnored) {
  const auto text = [](const char* toml) {
    try {
      apply(parsed(toml), CompileOptions{});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(text("backend.cpu.tile = 4"), "compile profile: backend.cpu.tile: no backend has settings");
}

TEST(section11_profile, ProfilesFromCodeAreChecked) {
  const auto fault = [](const CompileProfile& p) {
    return test::error_text(ErrorCode::invalid_argument, [&] { apply(p, CompileOptions{}); });
  };
  CompileProfile p;
  p.passes["cze"] = false;
  EXPECT_EQ(fault(p), "compile profile: unknown pass \"cze\": did you mean \"cse\"?");
  p.passes = {{"pack_weights", false}};
  EXPECT_EQ(fault(p),
            "compile profile: the pass \"pack_weights\" is required and cannot be switched off");
  p.passes = {};
  p.quant = QuantScheme{DType::f32};
  EXPECT_EQ(fault(p), "compile profile: quant: expected a block format of weights, found f32");
  p.quant = QuantScheme{DType::q8_0, 16};
  EXPECT_EQ(fault(p),
            "compile profile: quant: expected a group of 32, the block of q8_0, found 16");
}

}  // namespace
}  // namespace rlx
