// Section 9 of the design of the compiler: artefacts on disk. What is read again is what was compiled; whatever is
// wrong with a file costs a compile and a warning, and never an answer.
#include <fcntl.h>

#include "base/byte_stream.h"
#include "compiler/pipeline.h"
#include "device/program_io.h"
#include "runtime/aot_support.h"
#include "runtime/artefact.h"
#include "runtime/toy_model.h"

namespace rlx {
namespace {

std::vector<float> logits_of(Decoder& decoder) {
  const std::int32_t prompt[] = {5, 17, 300, 42};
  const std::span<const float> logits = decoder.step(prompt);
  return {logits.begin(), logits.end()};
}

DecoderOptions with_cache(const aot_fs::path& folder, std::int64_t read_at_once = kAotReadAtOnce) {
  DecoderOptions o;
  o.threads = 2;
  AotOptions cache;
  cache.folder = folder;
  cache.read_at_once = read_at_once;
  o.aot = std::make_shared<AotCache>(cache);
  return o;
}

TEST(section9_Bytes, ProgramsAndPlansReadBackEqual) {
  for (const DType type : {DType::f32, DType::q8_0, DType::q4_K}) {
    const LoadedModel toy = ToyModel(type).load();
    for (const Device& device : available_devices()) {
      const Backend& backend = find_backend(device);
      const CompileResult r = compile(toy.model.graph, {}, backend)
                                  .specialize({{sym::rows, 8}, {sym::out_rows, 2}, {sym::batch, 1}}, {2, 128});
      ByteWriter program, plan, again;
      write_program(program, *r.lir.program);
      write_plan(plan, *r.lir.plan);
      ByteCursor in(program.bytes(), "program"), plan_in(plan.bytes(), "plan");
      const Program read = read_program(in, backend);
      write_program(again, read);
      EXPECT_EQ(again.bytes(), program.bytes());
      EXPECT_EQ(read.text(), r.lir.program->text());
      const Plan read_plan_again = read_plan(plan_in, read);
      EXPECT_EQ(read_plan_again.text(read), r.lir.plan->text(*r.lir.program));
      EXPECT_EQ(read_plan_again.bytes, r.lir.plan->bytes);
      EXPECT_EQ(read_plan_again.scratch_per_worker, r.lir.plan->scratch_per_worker);
    }
  }
}

// What a file says that no compiler would: each is an error, whatever its digests.
TEST(section9_Bytes, HostileProgramsAreRefused) {
  const LoadedModel toy = ToyModel(DType::q8_0).load();
  const Device device = Device::cpu();
  const Backend& backend = find_backend(device);
  const CompileResult r =
      compile(toy.model.graph, {}, backend).specialize({{sym::rows, 8}, {sym::out_rows, 2}, {sym::batch, 1}});
  const auto refused = [&](const std::function<void(Program&, Plan&)>& change) {
    Program program = *r.lir.program;
    Plan plan = *r.lir.plan;
    change(program, plan);
    ByteWriter out;
    write_program(out, program);
    write_plan(out, plan);
    try {
      ByteCursor in(out.bytes(), "file");
      const Program read = read_program(in, backend);
      read_plan(in, read);
      return std::string("read");
    } catch (const Error& e) {
      return std::string(e.what()).substr(0, 13) == "file: offset " ? std::string("refused") : std::string(e.what());
    }
  };
  EXPECT_EQ(refused([](Program&, Plan&) {}), "read");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.calls[3].in[0] = 1 << 20; }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.calls[3].in[0] = p.calls.back().out[0]; }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { std::swap(p.calls[1], p.calls[2]); }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.calls.pop_back(); }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) {
              p.weights[1].shape = Shape({1, 1}, p.weights[1].shape.dtype);
            }),
            "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.operands[static_cast<std::size_t>(p.calls[2].out[0])].last = 0; }),
            "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) {
              Operand& o = p.operands[static_cast<std::size_t>(p.calls[2].out[0])];
              o.shape = o.shape.with_dim(0, Dim(1));
            }),
            "refused");
  // A result in the place of an operand that its op does not name: a product over its own input.
  EXPECT_EQ(refused([](Program& p, Plan& q) {
              for (const Call& c : p.calls) {
                Operand &x = p.operands[static_cast<std::size_t>(c.in[0])],
                        &y = p.operands[static_cast<std::size_t>(c.out[0])];
                if (c.def->name != "fused_linear" || x.place != Place::arena || y.index != c.out[0]) continue;
                Operand& buffer = p.operands[static_cast<std::size_t>(x.index)];
                buffer.last = std::max(buffer.last, y.last);
                const std::int32_t was = y.index, now = x.index;
                for (Operand& o : p.operands)
                  if (o.place == Place::arena && o.index == was) o.index = now;
                for (std::size_t i = 0; i < p.operands.size(); ++i)
                  if (p.operands[i].place == Place::arena)
                    q.offsets[i] = q.offsets[static_cast<std::size_t>(p.operands[i].index)];
                return;
              }
            }),
            "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.alignment = 96; }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.budget = -1; }), "refused");
  EXPECT_EQ(refused([](Program& p, Plan&) { p.inputs[0].operand = p.inputs[1].operand; }), "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) { q.arena_bytes = 64; }), "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) { q.arena_bytes *= 1000; }), "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) {
              for (auto& o : q.offsets) o = std::min<std::int64_t>(o, 0);
            }),
            "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) {
              for (auto& c : q.calls) c.barrier_after = c.barrier_before = false;
            }),
            "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) { q.threads = 100000; }), "refused");
  EXPECT_EQ(refused([](Program&, Plan& q) { q.upper.set(sym::rows, std::int64_t{1} << 39); }), "refused");
}

// One program has one text: files that differ in nothing that runs would have different digests.
TEST(section9_Bytes, ATableOfShapesThatNobodyWritesIsRefused) {
  const auto refusal = [](const std::vector<std::string_view>& shapes, const std::vector<std::uint32_t>& operands) {
    ByteWriter out;
    out.text("program");
    for (const std::int64_t n : {64, 0}) out.number(n);  // alignment, budget
    out.number(static_cast<std::uint32_t>(shapes.size()));
    for (const std::string_view s : shapes) out.text(s);
    out.number(static_cast<std::uint32_t>(operands.size()));
    for (const std::uint32_t shape : operands) {
      out.number(shape);
      out.number(static_cast<std::uint8_t>(Place::arena));
      for (const std::int32_t n : {0, 0, 0}) out.number(n);  // index, live range
    }
    ByteCursor in(out.bytes(), "file");
    try {
      read_program(in, find_backend(Device::reference()));
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal({"f32[1]", "f32[2]"}, {0}).find("1 of 2 shapes belong to no operand"), std::string::npos);
  EXPECT_NE(refusal({"f32[1]"}, {}).find("1 of 1 shapes belong to no operand"), std::string::npos);
  EXPECT_NE(refusal({"f32[1]", "f32[1]"}, {0, 1}).find("the shape f32[1] is there twice"), std::string::npos);
  EXPECT_NE(refusal({"f32[1]", "f32[2]"}, {1, 0}).find("shape of an operand: 1, expected 0 to 0"), std::string::npos);
  EXPECT_NE(refusal({}, {0}).find("shape of an operand: 0"), std::string::npos);
  EXPECT_EQ(refusal({"f32[1]", "f32[2]"}, {0, 1}).find("shape"), std::string::npos);
}

TEST(section9_Cache, AHitRunsNoPassAndPacksNoWeight) {
  const AotFolder folder;
  const ToyModel toy(DType::q8_0);
  Decoder plain(toy.load(), {});
  const std::vector<float> expected = logits_of(plain);
  DecoderStats first, second;
  {
    Decoder d(toy.load(), with_cache(folder.path()));
    EXPECT_EQ(logits_of(d), expected);
    first = d.stats();
  }
  EXPECT_GT(first.passes, 0);
  EXPECT_GT(first.packed_tensors, 0);
  EXPECT_EQ(first.cache.hits, 0);
  EXPECT_EQ(first.cache.misses, 3);  // the program, its plan for the prompt, and the weights
  {
    Decoder d(toy.load(), with_cache(folder.path()));
    EXPECT_EQ(logits_of(d), expected);
    second = d.stats();
    EXPECT_EQ(d.dispatch().json(), plain.dispatch().json());
  }
  EXPECT_EQ(second.compiles, 0);
  EXPECT_EQ(second.passes, 0);
  EXPECT_EQ(second.packed_tensors, 0);
  EXPECT_EQ(second.cache.hits, 3);
  EXPECT_EQ(second.cache.misses, 0);
  EXPECT_EQ(second.weight_bytes, first.weight_bytes);
}

TEST(section9_Cache, LargeWeightsArriveBehindTheFirstCalls) {
  const AotFolder folder;
  const ToyModel toy(DType::q8_0, {.vocab = 2048, .hidden = 512, .inner = 2048});
  Decoder plain(toy.load(), {});
  const std::vector<float> expected = logits_of(plain);
  { Decoder d(toy.load(), with_cache(folder.path())); }
  const std::string good = read_file(folder.files(".rlxw").at(0));
  ASSERT_GT(good.size(), std::size_t{4} << 20);
  for (const std::size_t damage : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
    std::string content = good;
    if (damage > 0) content[damage] = static_cast<char>(content[damage] ^ 4);
    overwrite(folder.files(".rlxw").at(0), content);
    DecoderOptions o = with_cache(folder.path(), 0);
    Decoder d(toy.load(), o);
    EXPECT_EQ(logits_of(d), expected) << damage;
    EXPECT_EQ(d.stats().packed_tensors > 0, damage > 0);
    o.aot->flush();
    EXPECT_EQ(d.stats().cache.rebuilds, damage > 0 ? 1 : 0);
  }
  // The last damage was repaired on disk, too. (Not EXPECT_EQ: its comparison of megabytes takes all memory.)
  EXPECT_TRUE(read_file(folder.files(".rlxw").at(0)) == good);
}

TEST(section9_Cache, TwoVariantsLieSideBySideOverOneWeightsFile) {
  const AotFolder folder;
  AotOptions options;
  options.folder = folder.path();
  const AotAnswer small = answer_with(options, 4), large = answer_with(options, 64);
  EXPECT_EQ(small.values, large.values);
  EXPECT_GT(large.passes, 0);  // another executable: compiled
  EXPECT_EQ(folder.files(".rlxv").size(), 2u);
  EXPECT_EQ(folder.files(".rlxw").size(), 1u);
  for (const std::int64_t bound : {4, 64}) {
    const AotAnswer again = answer_with(options, bound);
    EXPECT_EQ(again.values, small.values);
    EXPECT_EQ(again.passes, 0);
    EXPECT_EQ(again.cache.hits, 2);
    EXPECT_EQ(again.cache.misses + again.cache.rebuilds, 0);
  }
}

TEST(section9_Cache, GetOrSpecializeAotUsesTheNameThatItIsGiven) {
  const AotFolder folder;
  AotOptions options;
  options.folder = folder.path();
  const Digest key = digest("mine");
  for (const bool hit : {false, true}) {
    AotCache cache(options);
    ModelCompilePipeline pipeline(Device::cpu());
    const auto graph =
        pipeline.get_or_specialize_aot(cache, "base", key, {{sym::rows, 8}}, HirSource([] { return aot_model(); }), {});
    EXPECT_EQ(graph->compiled().passes.empty(), hit);
    EXPECT_EQ(
        pipeline.get_or_specialize_aot(cache, "base", key, {{sym::rows, 8}}, HirSource([] { return aot_model(); }), {}),
        graph);
    cache.flush();
  }
  const DimBinding sizes{{sym::rows, 8}};
  EXPECT_EQ(folder.files(".rlxv").at(0).filename().string(), "base__" + sizes.digest().hex() + ".rlxv");
}

// Both kinds of file.
class section9_Damage : public testing::TestWithParam<const char*> {};

TEST_P(section9_Damage, OfFilesIsRebuiltWithTheRightAnswerAndOneWarning) {
  const AotFolder folder;
  const AotAnswer expected = answer_in(folder.path());
  const aot_fs::path file = folder.files(GetParam()).at(0);
  const std::string good = read_file(file);
  const auto check = [&](std::string_view content, std::size_t at) {
    overwrite(file, content);
    const AotAnswer a = answer_in(folder.path());
    EXPECT_EQ(a.values, expected.values) << at;
    EXPECT_EQ(a.cache.rebuilds, 1) << at;
    EXPECT_EQ(a.warnings, 1) << at;
    EXPECT_EQ(a.cache.saved, 1) << at;
    EXPECT_NE(a.warning.find(file.filename().string()), std::string::npos) << a.warning;
    EXPECT_EQ(read_file(file), good) << at;
  };
  for (std::size_t i = 0; i < good.size(); i += 1 + good.size() / 20) {
    std::string content = good;
    content[i] = static_cast<char>(content[i] ^ (1 << (i % 8)));
    check(content, i);
    check(std::string_view(good).substr(0, i), i);
  }
  check(good + '\0', good.size());
  EXPECT_EQ(folder.temporary_files(), 0u);
}

// Every byte, in a file that is not written again.
TEST_P(section9_Damage, OfAnyByteIsSeen) {
  const AotFolder folder;
  const AotAnswer expected = answer_in(folder.path());
  const aot_fs::path bundle = folder.path() / "bundle.rlx";
  write_aot_bundle(folder.path(), "nowhere", bundle);
  const std::string whole = read_file(bundle), part = read_file(folder.files(GetParam()).at(0));
  const std::size_t begin = whole.find(part);
  ASSERT_NE(begin, std::string::npos);
  const int fd = ::open(bundle.c_str(), O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto put = [&](std::size_t at, char c) { ASSERT_EQ(::pwrite(fd, &c, 1, static_cast<off_t>(at)), 1); };
  for (std::size_t i = begin; i < begin + part.size(); ++i) {
    // Zeros before the data are many of the same kind.
    if (i % 64 != 0 && whole.find_first_not_of('\0', i) > i + 32) continue;
    put(i, static_cast<char>(whole[i] ^ (1 << (i % 8))));
    const AotAnswer a = answer_with({}, 4, bundle);
    put(i, whole[i]);
    ASSERT_EQ(a.values, expected.values) << i - begin;
    ASSERT_EQ(a.cache.rebuilds, 1) << i - begin;
    ASSERT_EQ(a.warnings, 1) << i - begin;
  }
  ::close(fd);
  EXPECT_EQ(answer_with({}, 4, bundle).cache.hits, 2);
}

TEST_P(section9_Damage, OfAnyLengthIsSeen) {
  const AotFolder folder;
  answer_in(folder.path());
  const aot_fs::path file = folder.files(GetParam()).at(0), cut = folder.path() / "cut";
  const std::string good = read_file(file);
  const AotKind kind = file.extension() == ".rlxv" ? AotKind::variant : AotKind::weights;
  EXPECT_NO_THROW(read_aot_image(*AotReader::open(file), kind));
  overwrite(cut, good);
  ::chmod(cut.c_str(), 0600);
  for (std::size_t n = good.size(); n-- > 0;) {
    ASSERT_EQ(::truncate(cut.c_str(), static_cast<off_t>(n)), 0);
    ASSERT_THROW(read_aot_image(*AotReader::open(cut), kind), Error) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, section9_Damage, testing::Values(".rlxv", ".rlxw"),
                         [](const auto& p) { return std::string(p.param).substr(1); });

TEST(section9_Files, AFileOfAnotherExecutableIsForeign) {
  const AotFolder folder;
  AotOptions options;
  options.folder = folder.path();
  const AotAnswer expected = answer_with(options, 4);
  const aot_fs::path small = folder.files(".rlxv").at(0);
  answer_with(options, 64);
  for (const aot_fs::path& f : folder.files(".rlxv"))
    if (f != small) aot_fs::copy_file(f, small, aot_fs::copy_options::overwrite_existing);
  const AotAnswer a = answer_with(options, 4);
  EXPECT_EQ(a.values, expected.values);
  EXPECT_EQ(a.cache.rebuilds, 1);
  EXPECT_NE(a.warning.find("made for another executable, build or machine"), std::string::npos) << a.warning;
}

TEST(section9_Files, UnreadableFilesAndFoldersInTheirPlaceAreRebuilt) {
  const AotFolder folder;
  const AotAnswer expected = answer_in(folder.path());
  const aot_fs::path file = folder.files(".rlxv").at(0);
  ::chmod(file.c_str(), 0666);  // others may have written it
  AotAnswer a = answer_in(folder.path());
  EXPECT_EQ(a.values, expected.values);
  EXPECT_EQ(a.cache.rebuilds, 1);
  struct stat st {};
  ASSERT_EQ(::stat(file.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  aot_fs::remove(file);
  aot_fs::create_directory(file);
  a = answer_in(folder.path());
  EXPECT_EQ(a.values, expected.values);
  EXPECT_EQ(a.warnings, 1);
}

TEST(section9_Source, ACheckpointThatChangedBehindItsTimeIsFoundByVerify) {
  const AotFolder folder;
  const ToyModel toy(DType::q8_0);
  const aot_fs::path model = folder.path() / "toy.gguf", cache = folder.path() / "cache";
  std::string bytes(reinterpret_cast<const char*>(toy.bytes().data()), toy.bytes().size());
  overwrite(model, bytes);
  { Decoder d(load_model(model), with_cache(cache)); }
  struct stat st {};
  ASSERT_EQ(::stat(model.c_str(), &st), 0);
  bytes[bytes.size() - 1000] = static_cast<char>(bytes[bytes.size() - 1000] ^ 1);
  overwrite(model, bytes);
  const timespec times[] = {st.st_atim, st.st_mtim};
  ASSERT_EQ(::utimensat(AT_FDCWD, model.c_str(), times, 0), 0);
  {
    Decoder d(load_model(model), with_cache(cache));
    EXPECT_EQ(d.stats().cache.hits, 2);  // same size, time, inode, header and samples
  }
  DecoderOptions verify = with_cache(cache);
  AotOptions options;
  options.folder = cache;
  options.verify_content = true;
  std::string warning;
  options.warn = [&](const std::string& text) { warning = text; };
  verify.aot = std::make_shared<AotCache>(options);
  Decoder d(load_model(model), verify);
  EXPECT_EQ(d.stats().cache.rebuilds, 1);
  EXPECT_NE(warning.find("the checkpoint has changed"), std::string::npos) << warning;
  // A new time is another checkpoint: a miss.
  ::utimensat(AT_FDCWD, model.c_str(), nullptr, 0);
  Decoder later(load_model(model), with_cache(cache));
  EXPECT_EQ(later.stats().cache.misses, 2);
}

TEST(section9_Artefact, OneFileHoldsProgramAndWeights) {
  const AotFolder folder;
  const ToyModel toy(DType::q8_0);
  const aot_fs::path model = folder.path() / "toy.gguf", file = folder.path() / "toy.rlx";
  overwrite(model, {reinterpret_cast<const char*>(toy.bytes().data()), toy.bytes().size()});
  Decoder plain(load_model(model), {});
  const std::vector<float> expected = logits_of(plain);
  const ArtefactInfo info = write_artefact(model, file, {});
  EXPECT_EQ(info.packed_tensors, plain.stats().packed_tensors);
  EXPECT_EQ(info.file_bytes, static_cast<std::int64_t>(aot_fs::file_size(file)));
  const auto run = [&](DecoderOptions o) {
    const aot_fs::path source = resolve_artefact(file, o);
    Decoder d(load_model(source), o);
    EXPECT_EQ(logits_of(d), expected);
    return d.stats();
  };
  DecoderStats s = run({});
  EXPECT_EQ(s.passes + s.packed_tensors + s.cache.misses, 0);
  EXPECT_EQ(s.cache.hits, 2);
  // Damage anywhere costs a compile; the file stays as it is.
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  overwrite(file, bytes);
  s = run({});
  EXPECT_EQ(s.cache.rebuilds, 1);
  EXPECT_EQ(read_file(file), bytes);
  // The model may lie beside the file instead.
  EXPECT_FALSE(is_aot_bundle(model));
  aot_fs::create_directory(folder.path() / "moved");
  aot_fs::rename(file, folder.path() / "moved" / "toy.rlx");
  aot_fs::rename(model, folder.path() / "moved" / "toy.gguf");
  DecoderOptions o;
  EXPECT_EQ(resolve_artefact(folder.path() / "moved" / "toy.rlx", o), folder.path() / "moved" / "toy.gguf");
  aot_fs::remove(folder.path() / "moved" / "toy.gguf");
  try {
    resolve_artefact(folder.path() / "moved" / "toy.rlx", o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::io);
    EXPECT_NE(std::string(e.what()).find("neither there nor beside this file"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace rlx
