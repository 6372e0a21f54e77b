// Encoders, image encoders and encoder-decoders through the model pipeline: reference data on every kind of dispatch
// and device, batches without padding, messages for wrong inputs.
#include "runtime/encoder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "error_text.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors_writer.h"
#include "runtime/kernel_profile.h"
#include "runtime/text_model.h"
#include "runtime/verify.h"

namespace rlx::runtime_encoder_tests {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

fs::path golden(const std::string& name) { return fs::path(RLX_TEST_DIR) / "goldens/models" / name; }

EncoderModel session(LoadedModel model, int threads = 1) {
  EncoderOptions options;
  options.threads = threads;
  options.compile.precision.activations = Activations::f32;
  return EncoderModel(std::move(model), options);
}
EncoderModel load(const std::string& name, int threads = 1) { return session(load_model(golden(name)), threads); }

/// n tokens of the goldens' vocabularies of 160.
Ids some_tokens(std::int32_t n, std::int32_t seed = 1) {
  Ids ids;
  for (std::int32_t i = 0; i < n; ++i) ids.push_back((i * 37 + seed * 11) % 160);
  return ids;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

struct Way {
  const char* name;
  std::function<void(DecoderOptions&)> set;
};

class section11_encoder_goldens : public testing::TestWithParam<const char*> {};

TEST_P(section11_encoder_goldens, VerifyOnEveryDispatchAndDevice) {
  const std::vector<Way> ways = {
      {"native", [](DecoderOptions&) {}},
      {"force_native", [](DecoderOptions& o) { o.compile.dispatch.policy = DispatchPolicy::force_native; }},
      {"common", [](DecoderOptions& o) { o.compile.dispatch.policy = DispatchPolicy::force_common; }},
      {"no_fusion", [](DecoderOptions& o) { o.compile.fusion = false; }},
      {"three_threads", [](DecoderOptions& o) { o.threads = 3; }},
      {"reference", [](DecoderOptions& o) { o.device = Device::reference(); }},
  };
  for (const Way& way : ways) {
    GoldenOptions options;
    options.decoder.threads = 1;
    way.set(options.decoder);
    const GoldenResult r = verify_golden(golden(GetParam()), options);
    EXPECT_TRUE(r.ok) << way.name << ": " << r.diff << " " << r.why;
    EXPECT_GT(r.diff, 0) << way.name;
    if (options.decoder.device == Device::cpu()) {
      EXPECT_EQ(r.reference, 0) << way.name << ": every node has a kernel";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, section11_encoder_goldens, testing::Values("bert", "vit", "resnet", "t5"));

TEST(Encoder, ASequenceHasTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  const Ids a = some_tokens(70), b = some_tokens(3, 2), c = some_tokens(128, 3);
  EncoderModel one = load("bert"), several = load("bert", 3);
  const TokenSequence alone{a, {}}, batch[] = {{b, {}}, {a, {}}, {c, {}}};
  const HiddenRows single = one.run({&alone, 1}), ragged = several.run(batch);
  EXPECT_EQ(ragged.starts, (Ids{0, 3, 73, 201}));
  EXPECT_TRUE(same_bits(single.sequence(0), ragged.sequence(1)));
  ASSERT_TRUE(single.pooled && ragged.pooled);
  EXPECT_TRUE(same_bits(single.pooled->as<float>(), ragged.pooled->as<float>().subspan(64, 64)));
}

TEST(Encoder, ABatchOfSeveralStepsIsWhatItsSequencesAreAlone) {
  EncoderModel model = load("bert");
  std::vector<Ids> ids;
  for (unsigned i = 0; i < 7; ++i) ids.push_back(some_tokens(i % 2 ? 128 : 90, i + 1));  // 744 tokens; a step takes 512
  std::vector<TokenSequence> batch;
  for (const Ids& of : ids) batch.push_back({of, {}});
  const HiddenRows all = model.run(batch);
  ASSERT_EQ(all.batch(), 7);
  ASSERT_EQ(all.rows.dims(), (std::vector<std::int64_t>{744, 64}));
  EXPECT_EQ(all.starts[3], 308);
  const double bytes = model.work().bytes;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const HiddenRows alone = model.run({&batch[i], 1});
    EXPECT_TRUE(same_bits(alone.sequence(0), all.sequence(static_cast<std::int64_t>(i)))) << i;
    EXPECT_TRUE(same_bits(alone.pooled->as<float>(), all.pooled->as<float>().subspan(i * 64, 64))) << i;
  }
  EXPECT_DOUBLE_EQ(bytes, 2 * model.work().bytes) << "the weights were read by two steps";
}

TEST(Encoder, SizesOfOneBucketShareAnExecutable) {
  EncoderModel model = load("bert");
  for (const std::int32_t n : {33, 40, 64, 50}) {
    const Ids ids = some_tokens(n);
    const TokenSequence s{ids, {}};
    EXPECT_EQ(model.run({&s, 1}).rows.dims(), (std::vector<std::int64_t>{n, 64})) << "no padded row is computed";
  }
  EXPECT_EQ(model.statistics().misses, 1);
  EXPECT_EQ(model.statistics().hits, 3);
  EXPECT_EQ(model.statistics().templates, 1);
}

TEST(Encoder, TokenTypesChangeTheResult) {
  EncoderModel model = load("bert");
  const Ids ids = some_tokens(6), zeros(6, 0), types = {0, 0, 0, 1, 1, 1};
  const TokenSequence plain{ids, {}}, same{ids, zeros}, other{ids, types};
  const HiddenRows rows = model.run({&plain, 1});
  EXPECT_TRUE(same_bits(rows.sequence(0), model.run({&same, 1}).sequence(0)));
  EXPECT_FALSE(same_bits(rows.sequence(0), model.run({&other, 1}).sequence(0)));
}

TEST(Encoder, WrongTokensAreNamed) {
  EncoderModel model = load("bert");
  const Ids good = some_tokens(4), high = {1, 2, 160}, low = {-1}, longest = some_tokens(129), types = {0, 0, 2, 0};
  const auto run = [&](std::vector<TokenSequence> batch) { model.run(batch); };
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               run({{good, {}}, {high, {}}});
                             }),
            "sequence 1, token 2: expected 0 to 159, found 160");
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               run({{low, {}}});
                             }),
            "sequence 0, token 0: expected 0 to 159, found -1");
  EXPECT_EQ(test::error_text(ErrorCode::limit,
                             [&] {
                               run({{longest, {}}});
                             }),
            "sequence 0: 129 tokens do not fit the model's 128 positions");
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               run({{good, {}}, {{}, {}}});
                             }),
            "sequence 1: expected at least one token");
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument, [&] { run({}); }),
            "a batch without a sequence: expected at least one");
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               run({{good, types}});
                             }),
            "sequence 0, token type 2: expected 0 to 1, found 2");
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               run({{good, high}});
                             }),
            "sequence 0: expected a token type for each of 4 tokens, found 3");
}

TEST(ImageEncoder, WrongImagesAreNamed) {
  EncoderModel model = load("vit");
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               model.run_images(Tensor::zeros({2, 3, 16, 32}));
                             }),
            "pixels: expected f32[batch, 3, 32, 32] with at least one image, found f32[2, 3, 16, 32]");
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               model.run_images(Tensor::zeros({3, 32, 32}));
                             }),
            "pixels: expected f32[batch, 3, 32, 32] with at least one image, found f32[3, 32, 32]");
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               model.run_images(Tensor::zeros({0, 3, 32, 32}));
                             }),
            "pixels: expected f32[batch, 3, 32, 32] with at least one image, found f32[0, 3, 32, 32]");
}

TEST(ImageEncoder, AnImageHasTheSameBitsInAnyBatch) {
  EncoderModel model = load("vit");
  Tensor both = Tensor::zeros({2, 3, 32, 32}), second = Tensor::zeros({1, 3, 32, 32});
  const std::span<float> pixels = both.mutable_as<float>(), copy = second.mutable_as<float>();
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 13) / 13 - 0.5f;
  std::copy(pixels.begin() + 3072, pixels.end(), copy.begin());
  const HiddenRows together = model.run_images(both), alone = model.run_images(second);
  EXPECT_EQ(together.rows.dims(), (std::vector<std::int64_t>{34, 64})) << "16 patches and the class token";
  EXPECT_TRUE(same_bits(together.sequence(1), alone.sequence(0)));
  ASSERT_TRUE(alone.pooled);
  EXPECT_EQ(alone.pooled->dims(), (std::vector<std::int64_t>{1, 64}));
}

TEST(ImageEncoder, AConvolutionalModelTakesImagesOfAnySize) {
  EncoderModel model = load("resnet");
  const auto image = [](std::int64_t batch, std::int64_t height, std::int64_t width) {
    Tensor t = Tensor::zeros({batch, 3, height, width});
    const std::span<float> pixels = t.mutable_as<float>();
    for (std::size_t i = 0; i < pixels.size(); ++i)
      pixels[i] = static_cast<float>(i % static_cast<std::size_t>(3 * height * width) % 17) / 17;
    return t;
  };
  const HiddenRows rows = model.run_images(image(1, 47, 33)), both = model.run_images(image(2, 47, 33));
  EXPECT_EQ(rows.rows.dims(), (std::vector<std::int64_t>{6 * 5, 32})) << "47 x 33, halved three times, rounded up";
  EXPECT_TRUE(same_bits(both.sequence(1), rows.sequence(0)));
  ASSERT_TRUE(rows.pooled);
  for (std::size_t c = 0; c < 32; ++c) {
    double mean = 0;
    for (std::size_t p = 0; p < 30; ++p) mean += double{rows.sequence(0)[p * 32 + c]} / 30;
    EXPECT_NEAR(rows.pooled->as<float>()[c], mean, 1e-5) << c;
  }
  EXPECT_EQ(model.run_images(image(1, 1, 1)).batch(), 1);
  EXPECT_EQ(test::error_text(ErrorCode::shape,
                             [&] {
                               model.run_images(Tensor::zeros({1, 4, 32, 32}));
                             }),
            "pixels: expected f32[batch, 3, height, width] with at least one image, found f32[1, 4, 32, 32]");
}

TEST(EncoderProfile, TimesAndWorkAreThoseOfTheRuns) {
  EncoderModel model = load("bert");
  EXPECT_EQ(model.work().bytes, 0) << "nothing has run";
  const Ids ids = some_tokens(16);
  const TokenSequence s{ids, {}}, two[] = {s, s};
  model.run({&s, 1});
  const StepWork one = model.work();
  EXPECT_TRUE(model.profile().empty());
  model.set_profile(true);
  model.run(two);
  model.run(two);
  EXPECT_NEAR(model.work().ops[2], 2 * one.ops[2], 0.05 * one.ops[2]) << "twice the rows; the pooler has few";
  std::int64_t calls = 0;
  double us = 0;
  for (const KernelTime& k : model.profile()) {
    calls += k.calls;
    us += k.us;
  }
  EXPECT_GT(us, 0);
  EXPECT_EQ(calls % 2, 0) << "two runs";
  model.set_profile(false);
  EXPECT_TRUE(model.profile().empty());
}

TEST(EncoderDecoder, GreedyTextFollowsTheLogits) {
  EncoderModel model = load("t5");
  const Ids source = some_tokens(21);
  const Ids target = model.generate(source, 12);
  ASSERT_FALSE(target.empty());
  Ids given = {static_cast<std::int32_t>(model.info().start_token)};
  given.insert(given.end(), target.begin(), target.end());
  const TokenSequence from{source, {}}, to{given, {}};
  const Tensor logits = model.decode(model.run({&from, 1}), {&to, 1});
  ASSERT_EQ(logits.dims(), (std::vector<std::int64_t>{static_cast<std::int64_t>(given.size()), 160}));
  for (std::size_t i = 0; i < target.size(); ++i) {
    const std::span<const float> row = logits.as<float>().subspan(i * 160, 160);
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), target[i]) << i;
  }
}

TEST(EncoderDecoder, ABatchIsWhatItsPairsAreAlone) {
  EncoderModel model = load("t5");
  const Ids a = some_tokens(5), b = some_tokens(90, 2), x = {0, 7, 9}, y = {0, 3};
  const TokenSequence sources[] = {{a, {}}, {b, {}}}, targets[] = {{x, {}}, {y, {}}};
  const Tensor together = model.decode(model.run(sources), targets);
  const Tensor last = model.decode(model.run(sources), targets, EncoderModel::Wanted::last);
  const Tensor alone = model.decode(model.run({&sources[1], 1}), {&targets[1], 1});
  EXPECT_TRUE(same_bits(together.as<float>().subspan(3 * 160), alone.as<float>()));
  EXPECT_TRUE(same_bits(last.as<float>().subspan(160), together.as<float>().subspan(4 * 160)));
  EXPECT_EQ(test::error_text(ErrorCode::invalid_argument,
                             [&] {
                               model.decode(model.run(sources), {targets, 1});
                             }),
            "targets: expected one for each of 2 sources, found 1");
}

TEST(EncoderDecoder, ItsEncoderAloneIsAnEncoder) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("rlx_t5_{}", ::getpid());
  fs::create_directories(folder);
  const std::string config = read_file(golden("t5") / "config.json", 1u << 20), whole = "T5ForConditionalGeneration";
  std::ofstream(folder / "config.json") << std::string(config).replace(config.find(whole), whole.size(),
                                                                      "T5EncoderModel");
  fs::copy_file(golden("t5") / "model.safetensors", folder / "model.safetensors", fs::copy_options::overwrite_existing);
  EncoderModel alone = session(load_model(folder)), model = load("t5");
  fs::remove_all(folder);
  EXPECT_EQ(alone.info().kind, ModelKind::encoder);
  const Ids ids = some_tokens(9);
  const TokenSequence s{ids, {}};
  EXPECT_TRUE(same_bits(alone.run({&s, 1}).sequence(0), model.run({&s, 1}).sequence(0)));
  EXPECT_FALSE(alone.model().model.unused.empty()) << "the decoder's tensors";
}

TEST(EncoderDecoder, OtherRowsThanTheEncodersAreAnError) {
  EncoderModel model = load("t5");
  const Ids x = {0, 7};
  const TokenSequence target{x, {}};
  HiddenRows rows;
  rows.rows = Tensor::zeros({2, 32});
  rows.starts = {0, 2};
  EXPECT_NE(test::error_text(ErrorCode::shape,
                             [&] {
                               model.decode(rows, {&target, 1});
                             })
                .find("f32[rows, 64]"),
            std::string::npos);
  rows.rows = Tensor::zeros({2, 64});
  rows.starts = {0, 3};
  EXPECT_NE(test::error_text(ErrorCode::shape,
                             [&] {
                               model.decode(rows, {&target, 1});
                             })
                .find("found f32[2, 64]"),
            std::string::npos);
}

TEST(EncoderKinds, EachKindSaysWhatItIs) {
  const Ids ids = some_tokens(2);
  const TokenSequence s{ids, {}};
  EncoderModel bert = load("bert"), vit = load("vit");
  EXPECT_NE(test::error_text(ErrorCode::unsupported,
                             [&] {
                               vit.run({&s, 1});
                             })
                .find("vit is of the kind vision"),
            std::string::npos);
  EXPECT_NE(test::error_text(ErrorCode::unsupported,
                             [&] {
                               bert.run_images(Tensor::zeros({1, 3, 32, 32}));
                             })
                .find("bert is of the kind encoder; expected a model of images"),
            std::string::npos);
  EXPECT_NE(
      test::error_text(ErrorCode::unsupported, [&] { bert.generate(ids, 1); }).find("expected a model with a decoder"),
      std::string::npos);
  EXPECT_NE(test::error_text(ErrorCode::unsupported, [] { load("llama"); }).find("llama is a decoder"),
            std::string::npos);
  for (const char* name : {"bert", "vit", "t5"}) {
    const std::string text = test::error_text(ErrorCode::unsupported, [&] { Decoder(load_model(golden(name)), {}); });
    EXPECT_NE(text.find(std::string(name) + " is an encoder"), std::string::npos) << text;
    EXPECT_NE(text.find("rlx::EncoderModel"), std::string::npos) << text;
    EXPECT_EQ(test::error_text(ErrorCode::unsupported, [&] { TextModel(golden(name), {}); }), text)
        << "before a tokenizer is looked for";
  }
}

/// The golden BERT under other names: what real checkpoints have.
class RenamedBert : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("rlx_bert_{}", ::getpid());
    fs::create_directories(folder_);
    fs::copy_file(golden("bert") / "config.json", folder_ / "config.json", fs::copy_options::overwrite_existing);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string replaced(std::string text, std::string_view from, std::string_view to) {
    if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
    return text;
  }

  HiddenRows run(EncoderModel model) const {
    const TokenSequence s{ids_, types_};
    return model.run({&s, 1});
  }

  const SafetensorsFile stored_{golden("bert") / "model.safetensors"};
  fs::path folder_;
  Ids ids_ = some_tokens(17), types_ = Ids(17, 1);
};

TEST_F(RenamedBert, WithPrefixFirstNamesOfNormsAndWithoutPooler) {
  SafetensorsWriter w;
  for (const SafetensorsTensor& t : stored_.tensors()) {
    if (t.name.starts_with("pooler")) continue;
    std::string name = replaced("bert." + t.name, "LayerNorm.weight", "LayerNorm.gamma");
    w.add(replaced(std::move(name), "LayerNorm.bias", "LayerNorm.beta"), t.dtype, t.shape, t.data);
  }
  const std::vector<float> head(160, 0.0f);
  const std::int64_t shape[] = {160};
  w.add("cls.predictions.bias", DType::f32, shape, std::as_bytes(std::span(head)));
  w.write(folder_ / "model.safetensors");
  LoadedModel model = load_model(folder_);
  EXPECT_EQ(model.model.unused, std::vector<std::string>{"cls.predictions.bias"}) << "heads of a task are listed";
  const HiddenRows found = run(session(std::move(model)));
  EXPECT_FALSE(found.pooled);
  EXPECT_TRUE(same_bits(found.sequence(0), run(load("bert")).sequence(0)));
}

TEST_F(RenamedBert, AsAGgufFile) {
  const std::pair<const char*, const char*> names[] = {
      {"embeddings.word_embeddings", "token_embd"},
      {"embeddings.position_embeddings", "position_embd"},
      {"embeddings.token_type_embeddings", "token_types"},
      {"embeddings.LayerNorm", "token_embd_norm"},
      {"encoder.layer.", "blk."},
      {"attention.self.query", "attn_q"},
      {"attention.self.key", "attn_k"},
      {"attention.self.value", "attn_v"},
      {"attention.output.dense", "attn_output"},
      {"attention.output.LayerNorm", "attn_output_norm"},
      {"intermediate.dense", "ffn_up"},
      {"output.dense", "ffn_down"},
      {"output.LayerNorm", "layer_output_norm"},
  };
  GgufWriter w;
  w.put_string("general.architecture", "bert");
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, std::int64_t>>{{"bert.block_count", 2},
                                                                   {"bert.embedding_length", 64},
                                                                   {"bert.feed_forward_length", 112},
                                                                   {"bert.attention.head_count", 4},
                                                                   {"bert.context_length", 128}})
    w.put_int(key, GgufType::u32, value);
  w.put_float("bert.attention.layer_norm_epsilon", GgufType::f32, 1e-12);
  for (const SafetensorsTensor& t : stored_.tensors()) {
    if (t.name.starts_with("pooler")) continue;
    std::string name = t.name;
    for (const auto& [from, to] : names) name = replaced(name, from, to);
    w.add_tensor(name, t.dtype, t.shape, t.data);
  }
  const std::vector<std::byte> bytes = w.bytes();
  LoadedModel model = load_model(std::make_shared<const GgufFile>(GgufFile::from_bytes(bytes, "bert.gguf")), true);
  EXPECT_TRUE(model.model.unused.empty());
  EXPECT_EQ(model.model.info.vocab, 160);
  EXPECT_EQ(model.model.info.token_types, 2);
  EXPECT_TRUE(same_bits(run(session(std::move(model))).sequence(0), run(load("bert")).sequence(0)));
}

TEST_F(RenamedBert, AValueOfTheConfigOutsideItsBoundsIsNamed) {
  fs::copy_file(golden("bert") / "model.safetensors", folder_ / "model.safetensors");
  const std::string config = read_file(golden("bert") / "config.json", 1u << 20);
  const auto with = [&](std::string_view from, std::string_view to, ErrorCode code = ErrorCode::format) {
    std::ofstream(folder_ / "config.json") << replaced(config, from, to);
    return test::error_text(code, [&] { load_model(folder_); });
  };
  EXPECT_NE(with("\"num_attention_heads\": 4", "\"num_attention_heads\": 5")
                .find("num_attention_heads: expected a divisor of the hidden size 64, found 5"),
            std::string::npos);
  EXPECT_NE(
      with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000000").find("num_hidden_layers: expected 1 to 39"),
      std::string::npos);
  EXPECT_NE(with("1e-12", "-1").find("layer_norm_eps: expected a number above 0 and below 1, found -1"),
            std::string::npos);
  EXPECT_NE(with("\"gelu\"", "\"sine\"", ErrorCode::unsupported).find("hidden_act: expected one of silu"),
            std::string::npos);
  EXPECT_NE(with("\"hidden_size\": 64", "\"hidden_size\": \"64\"").find("hidden_size"), std::string::npos);
  EXPECT_NE(with("\"vocab_size\": 160", "\"vocab_size\": 161", ErrorCode::shape)
                .find("embeddings.word_embeddings.weight: expected [161, 64], found bf16[160, 64]"),
            std::string::npos);
  EXPECT_NE(with("\"is_decoder\": false", "\"is_decoder\": true", ErrorCode::unsupported).find("is_decoder"),
            std::string::npos);
}

}  // namespace
}  // namespace rlx::runtime_encoder_tests
