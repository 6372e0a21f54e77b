// Models that are no decoders on the command line: verified, inspected, and named by what continues a text.
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace rlx::cli {
namespace {

using nlohmann::json;

TEST(EncoderCommands, VerifyTakesEveryKind) {
  for (const std::string name : {"bert", "vit", "resnet", "t5"}) {
    const Outcome r = rlx({"verify", golden_model(name), "--json", "--threads", "1"});
    ASSERT_EQ(r.code, 0) << name << r.err << r.out;
    const json j = json::parse(r.out);
    EXPECT_TRUE(j[0]["ok"].get<bool>()) << name;
    EXPECT_EQ(j[0]["kernels"]["reference"], 0) << name;
  }
}

TEST(EncoderCommands, WhatContinuesATextSaysWhatTheyAre) {
  for (const auto& [name, what] : std::initializer_list<std::pair<std::string, std::string>>{
           {"bert", "bert is an encoder of token sequences"},
           {"vit", "vit is an encoder of images"},
           {"t5", "t5 is an encoder with a decoder"}}) {
    const Outcome r = rlx({"run", golden_model(name), "-p", "hello"});
    EXPECT_EQ(r.code, 3) << r.out;
    EXPECT_NE(r.err.find(what), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("expected a decoder"), std::string::npos) << r.err;
  }
}

TEST(EncoderCommands, InspectShowsKindAndParts) {
  const json vit = json::parse(rlx({"inspect", golden_model("vit"), "--json"}).out);
  EXPECT_EQ(vit["kind"], "vision");
  EXPECT_EQ(vit["image"], json({3, 32, 32}));
  EXPECT_EQ(json::parse(rlx({"inspect", golden_model("llama"), "--json"}).out)["kind"], "decoder");
  const Outcome decoder = rlx({"inspect", golden_model("t5"), "--stage", "mir", "--part", "decoder"});
  EXPECT_EQ(decoder.code, 0) << decoder.err;
  EXPECT_NE(decoder.out.find("EncDecAttention"), std::string::npos);
  const Outcome encoder = rlx({"inspect", golden_model("t5"), "--stage", "lir"});
  EXPECT_EQ(encoder.code, 0) << encoder.err;
  EXPECT_EQ(encoder.out.find("EncDecAttention"), std::string::npos);
  const Outcome none = rlx({"inspect", golden_model("bert"), "--dispatch", "--part", "decoder"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("--part is for an encoder with a decoder; bert is of the kind encoder"), std::string::npos)
      << none.err;
}

}  // namespace
}  // namespace rlx::cli
