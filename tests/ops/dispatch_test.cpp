// Ops without a kernel: the CPU backend runs their references, views cost no call, and a compiled
// program gives the interpreter's bytes.
#include <algorithm>
#include <cstring>

#include "backends/cpu/backend.h"
#include "base/arena.h"
#include "compiler/pipeline.h"
#include "ops/arithmetic.h"
#include "ops/materialize.h"
#include "ops/product.h"
#include "ops/reduction.h"
#include "ops/select.h"
#include "ops/shape_ops.h"
#include "ops/support.h"
#include "runtime/executor.h"

namespace rlx {
namespace {

constexpr const char* kGeneralOps[] = {
    "sub",         "div",    "pow",           "maximum",     "minimum",    "compare",
    "where",       "clamp",  "unary",         "reshape",     "transpose",  "slice",
    "concat",      "pad",    "broadcast_to",  "reduce",      "cumulative", "softmax",
    "log_softmax", "argmax", "layer_norm",    "dot_general", "gather",     "scatter_add",
    "top_k",       "sort",   "batched_matmul"};

// A kernel that is added for one of them changes this to native, never to an error.
TEST(Dispatch, WithoutARowTheReferenceRuns) {
  for (const char* name : kGeneralOps) {
    const OpDef& def = *find_op(name);
    const CompileResult r = compile(sample_graph(def, def.samples()[0]), {}, cpu::backend());
    ASSERT_EQ(r.dispatch.rows.size(), 1u) << name;
    const DispatchKind kind = r.dispatch.rows[0].kind;
    if (def.has(Trait::view))
      EXPECT_EQ(kind, DispatchKind::view) << name;
    else
      EXPECT_TRUE(kind == DispatchKind::reference || kind == DispatchKind::native) << name;
  }
}

// Attention heads by hand: q x^T over 3 heads of 4, softmax, argmax, top-k.
Graph heads_graph() {
  Graph graph("heads");
  Builder b(graph);
  const Dim rows = sym::rows;
  const Value x = b.input("x", Shape({rows, 12}, DType::f32));
  const Value q = b(Transpose{{1, 0, 2}}, b(Reshape{{rows, 3, 4}}, x));
  const Value p = b(Softmax{}, b(BatchedMatmul{false, true}, q, q));
  const Value y = b(Reshape{{rows, 12}}, b(Transpose{{1, 0, 2}}, b(BatchedMatmul{}, p, q)));
  const Value top = b(TopK{.k = 2}, y);
  const Value mask = b(Compare{Relation::gt}, y, b(Reduce{Reduction::mean, -1, true}, y));
  const Value zeros = b(Sub{}, y, y);
  graph.set_outputs({{"y", b(Where{}, mask, y, zeros)},
                     {"values", top},
                     {"indices", b.result(top, 1)},
                     {"flat", b(Reshape{{-1}}, y)}});
  return graph;
}

TEST(Dispatch, ACompiledProgramEqualsTheInterpreter) {
  const std::int64_t rows = 5;
  std::vector<float> values;
  for (int i = 0; i < rows * 12; ++i) values.push_back(static_cast<float>(i * 7 % 11) / 4 - 1);
  const NamedTensor input[] = {{"x", f32({rows, 12}, values)}};
  const auto want = Interpreter(bind(heads_graph(), {{sym::rows, rows}})).run(input);

  const CompileResult r = compile(heads_graph(), {}, cpu::backend());
  Plan plan = specialize(*r.lir.program, {{sym::rows, 8}}, {2, 0});
  Arena arena(plan.arena_bytes, "test"), scratch(2 * plan.scratch_per_worker + 64, "test"),
      shared(plan.shared_bytes + 64, "test");
  Executor::Memory memory;
  memory.arena = arena.data();
  memory.scratch = scratch.data();
  memory.scratch_stride = plan.scratch_per_worker;
  memory.shared = shared.data();
  Executor executor(r.lir.program, std::move(plan), {});
  Workers workers(2);
  const void* inputs[] = {input[0].tensor.data()};
  executor.run(DimBinding{{sym::rows, rows}}, inputs, memory, workers);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Tensor& t = want[i].tensor;
    const void* got = executor.output(i).data;
    if (t.dtype() != DType::f32) {
      EXPECT_EQ(std::memcmp(got, t.data(), static_cast<std::size_t>(t.byte_size())), 0) << want[i].name;
      continue;
    }
    // The softmax runs in f32, the oracle's in double.
    const std::vector<float> values_of = t.to_floats();
    for (std::size_t k = 0; k < values_of.size(); ++k)
      EXPECT_NEAR(static_cast<const float*>(got)[k], values_of[k], 1e-6) << want[i].name;
  }
}

}  // namespace
}  // namespace rlx
