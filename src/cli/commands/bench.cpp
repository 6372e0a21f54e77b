// rlx bench: speed, with the flags, tests and keys of llama-bench.

#include "base/error.h"
#include "cli/bench_report.h"
#include "cli/bench_values.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/session_flags.h"
#include "runtime/artefact.h"
#include "runtime/bench_model.h"

namespace rlx::cli {
namespace {

constexpr IntegerRange kTokens{0, 1 << 24};
constexpr std::int64_t kBatchTokens = 1 << 20;  // of an encoder: a minute of work on two cores, and gigabytes of rows
constexpr const char* kDefaultPrompt = "512";
constexpr const char* kDefaultTokens = "128";

struct BenchFlags {
  std::vector<std::string> models, random, prompts, tokens, depths, threads, ubatch, batch, seq;
  std::vector<std::string> pair_values;
  std::optional<std::string> type, output;
  std::optional<std::int64_t> repetitions, layers, sequences;
  bool profile = false, no_warmup = false;
  SessionFlags session;
};

/// -pg takes pairs "512,128", so its comma list comes in twos.
std::vector<BenchTest> pair_tests(const BenchFlags& f) {
  if (f.pair_values.size() % 2 != 0)
    fail(ErrorCode::usage, "-pg: expected pairs PROMPT,TOKENS, found {} values",
         f.pair_values.size());
  std::vector<BenchTest> tests;
  for (std::size_t i = 0; i < f.pair_values.size(); i += 2) {
    const std::int64_t p = parse_integer("-pg", f.pair_values[i], {1, kTokens.most}),
                       n = parse_integer("-pg", f.pair_values[i + 1], {1, kTokens.most});
    tests.push_back({p, n, 0, 1});
  }
  return tests;
}

std::vector<std::int64_t> values(std::string_view flag, const std::vector<std::string>& given,
                                 std::string_view otherwise) {
  return bench_values(
      flag, given.empty() ? std::vector<std::string>{std::string(otherwise)} : given, kTokens);
}

/// As llama-bench orders them: by depth, prompts, then generation, then both together.
std::vector<BenchTest> tests_of(const BenchFlags& f) {
  const bool only_pairs = !f.pair_values.empty() && f.prompts.empty() && f.tokens.empty();
  const std::int64_t sequences = f.sequences.value_or(1);
  std::vector<BenchTest> tests;
  for (const std::int64_t depth : values("-d", f.depths, "0")) {
    for (const std::int64_t p :
         values("-p", f.prompts, only_pairs || sequences > 1 ? "0" : kDefaultPrompt))
      if (p > 0) tests.push_back({p, 0, depth, 1});
    for (const std::int64_t n : values("-n", f.tokens, only_pairs ? "0" : kDefaultTokens))
      if (n > 0) tests.push_back({0, n, depth, sequences});
    for (BenchTest t : pair_tests(f)) {
      t.depth = depth;
      tests.push_back(t);
    }
  }
  if (tests.empty()) fail(ErrorCode::usage, "rlx bench: no test: expected -p, -n or --pg above 0");
  return tests;
}

/// Tests of encoders; known before a model is loaded, so that a wrong value is told at once.
struct EncoderTests {
  std::vector<std::int64_t> batches, lengths;

  explicit EncoderTests(const BenchFlags& f)
      : batches(list("--batch", f.batch, "1")), lengths(list("--seq", f.seq, "128")) {}

  /// Each batch with each length. Errors (usage): more tokens in a batch than kBatchTokens.
  std::vector<BenchTest> of(ModelKind kind) const {
    std::vector<BenchTest> tests;
    for (const std::int64_t b : batches) {
      if (kind == ModelKind::vision)
        tests.push_back(BenchTest::images(b));
      else
        for (const std::int64_t s : lengths) {
          if (b * s > kBatchTokens)
            fail(ErrorCode::usage, "--batch {} of --seq {}: expected at most {} tokens together", b, s, kBatchTokens);
          tests.push_back(BenchTest::encoder(b, s));
        }
    }
    return tests;
  }

 private:
  static std::vector<std::int64_t> list(std::string_view flag, const std::vector<std::string>& given,
                                        const char* otherwise) {
    return bench_values(flag, given.empty() ? std::vector<std::string>{otherwise} : given, {1, 1 << 20});
  }
};

/// Flags of the other kinds of models. Errors: usage.
void refuse_foreign_flags(const BenchFlags& f, const ModelInfo& info) {
  const bool decoder = info.kind == ModelKind::decoder, images = info.kind == ModelKind::vision;
  struct Foreign {
    const char* flag;
    bool given;
  };
  const Foreign of_decoders[] = {{"-p", !f.prompts.empty()},   {"-n", !f.tokens.empty()},
                                 {"-pg", !f.pair_values.empty()}, {"-d", !f.depths.empty()},
                                 {"-ub", !f.ubatch.empty()},   {"--sequences", f.sequences.has_value()},
                                 {"--kv", f.session.kv.has_value()}};
  const Foreign of_encoders[] = {{"--batch", !f.batch.empty() && decoder},
                                  {"--seq", !f.seq.empty() && (decoder || images)}};
  for (const Foreign& o : of_encoders)
    if (o.given)
      fail(ErrorCode::usage, "{} is for encoders{}; {} is of the kind {}", o.flag,
           decoder ? "" : " of token sequences", info.architecture, name(info.kind));
  if (decoder) return;
  for (const Foreign& o : of_decoders)
    if (o.given)
      fail(ErrorCode::usage, "{} is for models that continue a text; {} is of the kind {}: expected --batch{}", o.flag,
           info.architecture, name(info.kind), images ? "" : " and --seq");
}

BenchFormat format_of(const BenchFlags& f) {
  const std::string text = f.output.value_or("md");
  if (text == "md") return BenchFormat::md;
  if (text == "json") return BenchFormat::json;
  if (text == "jsonl") return BenchFormat::jsonl;
  if (text == "csv") return BenchFormat::csv;
  fail(ErrorCode::usage, "-o: expected md, json, jsonl or csv, found \"{}\"", text);
}

struct BenchSource {
  std::string name;
  bool random = false;
};

std::vector<BenchSource> sources(const BenchFlags& f) {
  std::vector<BenchSource> all;
  for (const std::string& m : f.models) all.push_back({m, false});
  for (const std::string& r : f.random) all.push_back({r, true});
  if (all.empty())
    fail(ErrorCode::usage, "rlx bench: expected -m MODEL or --random NAME; see `rlx bench --help`");
  if (f.type && f.random.empty()) fail(ErrorCode::usage, "--type is for --random");
  if (f.layers && f.random.empty()) fail(ErrorCode::usage, "--layers is for --random");
  return all;
}

class Bench {
 public:
  explicit Bench(const BenchFlags& f) : f_(f), tests_(tests_of(f)), encoder_tests_(f), report_(format_of(f)) {}

  int run() {
    const std::vector<BenchSource> all = sources(f_);
    std::vector<std::int64_t> threads{0}, chunks{512};
    if (!f_.threads.empty()) threads = bench_values("-t", f_.threads, kThreadRange);
    if (!f_.ubatch.empty()) chunks = bench_values("-ub", f_.ubatch, {1, 1 << 16});
    const InterruptScope scope;
    for (const BenchSource& source : all)
      for (const std::int64_t chunk : chunks)
        for (const std::int64_t t : threads)
          if (!InterruptScope::interrupted()) measure(source, t, chunk);
    report_.finish();
    return InterruptScope::interrupted() ? kExitInterrupted : 0;
  }

 private:
  void measure(const BenchSource& source, std::int64_t threads, std::int64_t chunk) {
    DecoderOptions options = f_.session.options();
    options.threads = static_cast<int>(threads);
    options.chunk = chunk;
    options.context = needed_context(tests_);
    options.sequences = f_.sequences.value_or(1);
    BuildOptions build;
    build.context = options.context;
    // A random model is no checkpoint that would come again.
    if (source.random) options.aot = nullptr;
    LoadedModel model = source.random
                            ? random_model(source.name, f_.type.value_or(""), f_.layers.value_or(0))
                            : load_model(resolve_artefact(source.name, options), build);
    refuse_foreign_flags(f_, model.model.info);
    if (model.model.info.kind == ModelKind::decoder) {
      Decoder decoder(std::move(model), options);
      repeat(decoder, tests_);
    } else {
      EncoderModel encoder(std::move(model), {options.device, options.threads, 64, options.compile});
      repeat(encoder, encoder_tests_.of(encoder.info().kind));
    }
  }

  template <typename Model>
  void repeat(Model& model, const std::vector<BenchTest>& tests) {
    BenchOptions options;
    options.repetitions = f_.repetitions.value_or(5);
    options.warm_up = !f_.no_warmup;
    options.profile = f_.profile;
    options.cancelled = InterruptScope::interrupted;
    for (const BenchTest& test : tests) {
      if (InterruptScope::interrupted()) return;
      const BenchResult result = bench(model, test, options);
      if (result.seconds.empty() || InterruptScope::interrupted()) return;
      report_.add(BenchSubject::of(model), result, f_.profile ? model.profile() : std::vector<KernelTime>{});
    }
  }

  const BenchFlags& f_;
  std::vector<BenchTest> tests_;
  EncoderTests encoder_tests_;
  BenchReport report_;
};

Job declare_bench(Arguments& a) {
  const auto f = std::make_shared<BenchFlags>();
  a.texts("-m,--model", f->models, "GGUF files or model folders");
  a.texts("--random", f->random,
          fmt::format("Models with random weights: {}", fmt::join(random_model_names(), ", ")));
  a.text("--type", f->type, "Type of the random weights [q8_0; of encoders f32]");
  a.integer("--layers", f->layers, {1, 1024}, "Layers of the random models [their own]");
  a.texts("-p,--n-prompt", f->prompts,
          "Prompt tokens: values, first-last+step or first-last*factor [512]");
  a.texts("-n,--n-gen", f->tokens, "Generated tokens [128]");
  a.texts("-pg", f->pair_values, "Prompt and generated tokens in one test, as 512,128");
  a.texts("-d,--n-depth", f->depths, "Tokens that the cache holds before [0]");
  a.texts("--batch", f->batch, "Sequences or images that an encoder takes together; values as of -p [1]");
  a.texts("--seq", f->seq, "Tokens of each sequence of an encoder; values as of -p [128]");
  a.texts("-t,--threads", f->threads, "Threads [RLX_THREADS, else the physical cores]");
  f->session.declare_affinity(a);
  a.texts("-ub,--ubatch-size", f->ubatch, "Rows of a prompt that one step takes at most [512]");
  a.integer("-r,--repetitions", f->repetitions, {1, 100000}, "Repetitions of each test [5]");
  a.integer("--sequences", f->sequences, {1, 1024}, "Sequences that generate together [1]");
  a.text("-o,--output", f->output, "md, json, jsonl or csv [md]");
  a.flag("--profile", f->profile,
         "Time by kernel, on stderr or in JSON as \"kernels\": calls, ms in it and ms of waiting behind it (thread 0), "
         "GB/s and GOPS of all threads, with their shares of the read probe and of the probe of its unit");
  a.flag("--no-warmup", f->no_warmup, "Leave the first, unmeasured run out");
  a.text("--activations", f->session.activations,
         "Precision of activations in products: auto, int8, bf16 or f32 [auto]");
  a.text("--kv", f->session.kv, "Type of the KV cache: f32, f16, bf16 or q8 [by processor]");
  a.flag("--fast", f->session.fast,
         "Allow kernels whose sums differ in the last bits (AMX); changes nothing on processors "
         "without AMX");
  a.text("--device", f->session.device, "cpu or reference [cpu]");
  f->session.declare_cache(a);
  return [f] { return Bench(*f).run(); };
}

}  // namespace

const Command kBench = {"bench", "Speed of prompts, of decoding and of encoders",
                        "  rlx bench -m model.gguf -p 512 -n 128 -t 2\n"
                        "  rlx bench -m model.gguf -p 128-512*2 -n 0 -o json\n"
                        "  rlx bench --random llama-1b --type q4_K -p 64 -n 16 -r 3 --profile\n"
                        "  rlx bench --random bert-base --batch 1,32 --seq 16,128\n",
                        declare_bench};

}  // namespace rlx::cli
