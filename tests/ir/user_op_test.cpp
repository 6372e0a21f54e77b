// Ops that are registered at run time are the same kind of thing as built-in ones.
#include <gtest/gtest.h>

#include <thread>

#include "error_text.h"
#include "ir/op_impl.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/stage.h"
#include "ops/elementwise.h"
#include "ops/interpret.h"
#include "runtime/model_pipeline.h"

namespace rlx {
namespace {

// y = x + step, a plain loop.
struct Shifted {
  float step = 1.0f;
  static constexpr std::string_view name = "test_shifted";
  static constexpr Trait traits = Trait::elementwise;
  static constexpr std::array<std::string_view, 1> operands = {"x"};
  static constexpr auto fields() { return std::tuple{field("step", &Shifted::step)}; }
  bool operator==(const Shifted&) const = default;
  void infer(InferContext& c) const {
    c.dtype(0, {DType::f32});
    c.out(c.in(0));
  }
  void reference(const KernelArgs& a) const {
    for (std::int64_t i = 0; a.thread == 0 && i < a.in[0].dims[0]; ++i)
      a.out[0].as<float>()[i] = a.in[0].as<float>()[i] + step;
  }
};

// y = (x + 1) * 2, by other ops, one of them a user's.
struct ShiftedTwice {
  static constexpr std::string_view name = "test_shifted_twice";
  static constexpr Trait traits = Trait::composite;
  static constexpr auto fields() { return std::tuple{}; }
  bool operator==(const ShiftedTwice&) const = default;
  void infer(InferContext& c) const { c.out(c.in(0)); }
  void decompose(Body& body) const {
    body.ret({body.b(Scale{.factor = 2}, body.b(Shifted{}, body.in(0)))});
  }
};

struct TakesABuiltInName {
  static constexpr std::string_view name = "add";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields() { return std::tuple{}; }
  bool operator==(const TakesABuiltInName&) const = default;
  void infer(InferContext& c) const { c.out(c.in(0)); }
  void reference(const KernelArgs&) const {}
};
struct HasABadName : TakesABuiltInName {
  static constexpr std::string_view name = "Not A Word";
  bool operator==(const HasABadName&) const = default;
};
struct Unknown : TakesABuiltInName {
  static constexpr std::string_view name = "test_never_registered";
  bool operator==(const Unknown&) const = default;
};

class UserOps : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (find_op(Shifted::name) != nullptr) return;
    register_op<Shifted>();
    register_op<ShiftedTwice>();
  }
  static Graph graph() {
    Graph g("user");
    Builder b(g);
    const Value x = b.input("x", Shape({sym::rows}, DType::f32));
    g.set_outputs({{"y", b(ShiftedTwice{}, b(Shifted{.step = 0.5f}, x))}});
    return g;
  }
};

TEST_F(UserOps, AreBuiltPrintedParsedAndVerified) {
  const std::string text = print(graph());
  EXPECT_NE(text.find("test_shifted(%0) step=0.5 : f32[rows]"), std::string::npos) << text;
  const Graph again = parse_graph(text, "text");
  EXPECT_EQ(print(again), text);
  EXPECT_NO_THROW(verify(again, "parse"));
  EXPECT_EQ(again.node(std::int32_t{1}).as<Shifted>(), Shifted{.step = 0.5f});
}

TEST_F(UserOps, RunInTheInterpreterAndOnEveryBackend) {
  const float values[] = {1, 2, 3};
  const std::vector<NamedTensor> inputs = {{"x", Tensor::from({3}, std::span<const float>(values))}};
  const DimBinding three{{sym::rows, 3}};
  const std::vector<float> want = {5, 7, 9};
  EXPECT_EQ(Interpreter(bind(graph(), three)).run(inputs)[0].tensor.to_floats(), want);
  for (const Device& device : {Device::cpu(), Device::reference()}) {
    const auto compiled = Session(device).compile(graph(), {}, three);
    EXPECT_EQ(compiled->run(inputs)[0].tensor.to_floats(), want);
    EXPECT_GE(compiled->compiled().dispatch.count(DispatchKind::reference), 2) << "the report says so";
  }
}

TEST_F(UserOps, NamesAreTakenOnce) {
  EXPECT_EQ(test::error_text([] { register_op<Shifted>(); }),
            "an op named \"test_shifted\" exists: expected a name of its own");
  EXPECT_EQ(test::error_text([] { register_op<TakesABuiltInName>(); }),
            "an op named \"add\" exists: expected a name of its own");
  EXPECT_EQ(test::error_text([] { register_op<HasABadName>(); }),
            "\"Not A Word\" is no name of an op: expected [a-z_][a-z0-9_]*");
  EXPECT_EQ(test::error_text([] { op_def<Unknown>(); }),
            "the op \"test_never_registered\" is neither built in nor registered (rlx::register_op)");
  EXPECT_EQ(find_op("Not A Word"), nullptr);
}

template <int N>
struct Numbered : TakesABuiltInName {
  static constexpr char text[] = {'t', 'e', 's', 't', '_', 'n', char('a' + N), 0};
  static constexpr std::string_view name = text;
  bool operator==(const Numbered&) const = default;
};

TEST_F(UserOps, ThreadsMayRegisterAndLookUpAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> found = 0;
  const auto run = [&]<int N>(std::integral_constant<int, N>) {
    threads.emplace_back([&] {
      register_op<Numbered<N>>();
      for (int i = 0; i < 100; ++i) found += &op_def<Numbered<N>>() == find_op(Numbered<N>::name) ? 1 : 0;
    });
  };
  [&]<int... N>(std::integer_sequence<int, N...>) { (run(std::integral_constant<int, N>{}), ...); }
  (std::make_integer_sequence<int, 8>{});
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(found, 800);
  EXPECT_GE(user_ops().size(), 10u);

}

}  // namespace
}  // namespace rlx
