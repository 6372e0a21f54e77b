// Constants: stored once, exact in text, part of a graph's identity, data of the program.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/backend.h"
#include "compiler/pipeline.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/source.h"
#include "ir/stage.h"
#include "ops/elementwise.h"
#include "ops/interpret.h"
#include "ops/matmul.h"
#include "runtime/model_pipeline.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

Tensor numbers(std::vector<std::int64_t> dims, float first = 0.5f) {
  Tensor t = Tensor::zeros(std::move(dims));
  for (float& v : t.mutable_as<float>()) v = std::exchange(first, first + 0.25f);
  return t;
}

// y = x + c
Graph plus(const Tensor& c) {
  Graph g("plus");
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, c.dims().back()}, DType::f32));
  g.set_outputs({{"y", b(Add{}, x, b.constant(c))}});
  return g;
}

TEST(Constants, EqualContentsAreOneNode) {
  Graph g("g");
  Builder b(g);
  const Value one = b.constant(numbers({2, 3}));
  EXPECT_EQ(b.constant(numbers({2, 3})), one);
  EXPECT_NE(b.constant(numbers({3, 2})), one) << "other dims";
  EXPECT_NE(b.constant(numbers({2, 3}, 1.0f)), one) << "other values";
  EXPECT_EQ(g.nodes().size(), 3u);
  EXPECT_FALSE(g.find_source("")) << "a constant has no name";
  EXPECT_THROW(b.constant(Tensor()), Error);
}

TEST(Constants, TheDataIsTheGraphsOwn) {
  Graph g("g");
  std::vector<float> mine = {1, 2};
  const Value c = Builder(g).constant(
      Tensor::borrow({2}, DType::f32, {reinterpret_cast<const std::byte*>(mine.data()), 8}));
  mine = {7, 7};
  EXPECT_EQ(g.constant_of(c)->value.to_floats(), (std::vector<float>{1, 2}));
  const Graph copy = g;
  EXPECT_EQ(copy.constant_of(c)->value.data(), g.constant_of(c)->value.data()) << "copies share it";
}

std::vector<Tensor> one_of_each_dtype() {
  std::vector<Tensor> all;
  for (const DTypeInfo& t : all_dtypes()) {
    if (t.dtype == DType::xq8) continue;
    for (const std::int64_t n : {std::int64_t{t.block_elements}, std::int64_t{t.block_elements} * 40}) {
      all.push_back(Tensor::zeros({n}, t.dtype));
      auto bytes = all.back().mutable_as<std::byte>();
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(t.dtype == DType::boolean ? i % 2 : i * 37 + 5);
    }
  }
  Tensor special = Tensor::zeros({6});
  const float values[] = {-0.0f, std::numeric_limits<float>::infinity(), 1e-45f, 3.4e38f, 0.1f, -1.5f};
  std::memcpy(special.mutable_data(), values, sizeof values);
  all.push_back(special);
  special.mutable_as<std::uint32_t>()[0] = 0x7fc01234u;  // a NaN with a payload
  all.push_back(special);
  all.push_back(Tensor::zeros({0, 3}));
  all.push_back(Tensor::zeros({}, DType::i64));
  return all;
}

TEST(Constants, TextKeepsEveryBit) {
  for (const Tensor& value : one_of_each_dtype()) {
    Graph g("g");
    const Value c = Builder(g).constant(value);
    g.set_outputs({{"c", c}});
    const std::string text = print(g);
    const Graph again = parse_graph(text, "text");
    EXPECT_EQ(print(again), text);
    const Tensor& read = again.constant_of(c)->value;
    ASSERT_EQ(read.byte_size(), value.byte_size()) << text;
    EXPECT_EQ(std::memcmp(read.data(), value.data(), static_cast<std::size_t>(read.byte_size())), 0) << text;
    EXPECT_EQ(again.constant_of(c)->digest, g.constant_of(c)->digest);
  }
}

TEST(Constants, ShortOnesReadAsValues) {
  const std::string text = print(plus(numbers({3})));
  EXPECT_NE(text.find("%1 = constant {0.5, 0.75, 1} : f32[3]"), std::string::npos) << text;
  EXPECT_NE(print(plus(numbers({17}))).find("constant xxh3="), std::string::npos);
}

TEST(Constants, BadTextIsRefusedWithTheReason) {
  const auto message = [](const std::string& payload, const std::string& shape) -> std::string {
    try {
      parse_graph("graph \"g\" stage=hir\n%0 = constant " + payload + " : " + shape + "\nreturn\n", "t");
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(message("{1, 2}", "f32[3]").find("2 values for f32[3]"), std::string::npos);
  EXPECT_NE(message("{}", "f32[1000000000000]").find("0 values for"), std::string::npos);
  EXPECT_NE(message("{1, x}", "f32[2]").find("\"x\" is no f32"), std::string::npos);
  EXPECT_NE(message("{300}", "i8[1]").find("\"300\" is no i8"), std::string::npos);
  EXPECT_NE(message("{2}", "boolean[1]").find("\"2\" is no boolean"), std::string::npos);
  EXPECT_NE(message("{1}", "f32[rows]").find("expected sizes without symbols"), std::string::npos);
  EXPECT_NE(message("{1}", "q8_0[32]").find("1 values for q8_0[32]"), std::string::npos);
  EXPECT_NE(message("7", "f32[1]").find("expected {values} or xxh3=... base64=..."), std::string::npos);
  EXPECT_NE(message("xxh3=0 base64=AAAA", "f32[1]").find("expected 4 bytes, found 3"), std::string::npos);
  EXPECT_NE(message("xxh3=0 base64=A?==", "u8[1]").find("base64 text is damaged"), std::string::npos);
  EXPECT_NE(message("xxh3=0 base64=AR==", "u8[1]").find("base64 text is damaged"), std::string::npos) << "spare bits";
  EXPECT_NE(message("xxh3=0 base64=AQ==", "u8[1]").find("of the digest 0, found"), std::string::npos);
}

TEST(Constants, AreInTheIdentityOfTheGraph) {
  const Tensor a = numbers({64}), b = numbers({64}, 0.75f);
  EXPECT_EQ(digest(plus(a)), digest(plus(a)));
  EXPECT_NE(digest(plus(a)), digest(plus(b)));
}

TEST(Constants, BindingAndVerifyingKeepThem) {
  const Graph g = bind(plus(numbers({40})), {{sym::rows, 2}});
  EXPECT_NO_THROW(verify(g, "bind"));
  EXPECT_EQ(g.constant_of({1, 0})->value.to_floats(), numbers({40}).to_floats());
}

// x + c on the CPU is x + c of the interpreter; the data stands in the program once, and all plans share it.
TEST(Constants, RunFromTheProgram) {
  const Tensor c = numbers({40}), x = numbers({2, 40}, -3.0f);
  const CompileResult r = compile(plus(c), {}, cpu::backend());
  ASSERT_EQ(r.lir.program->constants.size(), 1u);
  EXPECT_TRUE(r.lir.program->weights.empty()) << "no store is asked";
  EXPECT_EQ(r.specialize({{sym::rows, 2}}).lir.program, r.specialize({{sym::rows, 3}}).lir.program);
  Session session(Device::cpu());
  const Tensor got = session.compile(plus(c), {}, {{sym::rows, 2}})->run({{"x", x}})[0].tensor;
  const std::vector<NamedTensor> inputs = {{"x", x}};
  EXPECT_EQ(got.to_floats(), Interpreter(bind(plus(c), {{sym::rows, 2}})).run(inputs)[0].tensor.to_floats());
}

// A weight that stands in the graph is packed when the program is made.
TEST(Constants, AsWeightsArePackedOnce) {
  Tensor w = Tensor::zeros({48, 64}, DType::q8_0);
  std::vector<float> row(64);
  for (std::int64_t r = 0; r < 48; ++r) {
    for (std::size_t k = 0; k < 64; ++k) row[k] = std::sin(static_cast<float>(r * 64 + std::int64_t(k)));
    encoder(DType::q8_0)(row.data(), w.mutable_data() + r * row_bytes(DType::q8_0, 64), 64);
  }
  Graph g("linear");
  Builder b(g);
  const Value x = b.input("x", Shape({sym::rows, 64}, DType::f32));
  g.set_outputs({{"y", b(Linear{}, x, b.constant(w))}});
  CompileOptions options;
  options.precision.activations = Activations::f32;
  Session session(Device::cpu());
  const auto graph = session.compile(g, options, {{sym::rows, 3}});
  const Program& program = *graph->compiled().lir.program;
  ASSERT_EQ(program.constants.size(), 1u) << program.text();
  EXPECT_EQ(program.constants[0].shape.layout, Layout::p16);
  const std::vector<NamedTensor> inputs = {{"x", numbers({3, 64}, -8.0f)}};
  const auto got = graph->run(inputs)[0].tensor.to_floats();
  const auto want = Interpreter(bind(g, {{sym::rows, 3}})).run(inputs)[0].tensor.to_floats();
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-3 * (1 + std::abs(want[i])));
}

}  // namespace
}  // namespace rlx
