// Ops that move values: places worked out by hand, symbolic sizes, and messages.
#include "ops/shape_ops.h"

#include "ops/support.h"

namespace rlx {
namespace {

// The shape that an op gives for one operand.
template <typename Op>
std::string shape_of(const Op& op, const std::string& x) {
  Graph graph;
  Builder b(graph);
  return b.shape(b(op, b.input("x", Shape::parse(x)))).text();
}

Tensor counted(std::vector<std::int64_t> dims) {
  std::int64_t n = 1;
  for (std::int64_t d : dims) n *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(i));
  return f32(std::move(dims), std::move(values));
}

TEST(ShapeOps, ReshapeKeepsTheOrder) {
  const Tensor y = run_op(Reshape{{3, -1}}, {counted({2, 3})});
  EXPECT_EQ(y.text(), "f32[3, 2]");
  expect_near(y, {0, 1, 2, 3, 4, 5}, 0);
  EXPECT_EQ(run_op(Reshape{}, {counted({1, 1})}).text(), "f32[]");
}

TEST(ShapeOps, ReshapeOfSymbolicSizes) {
  const Dim rows = sym::rows, batch = sym::batch, seq = sym::seq;
  EXPECT_EQ(shape_of(Reshape{{rows, 3, 64}}, "f32[rows, 192]"), "f32[rows, 3, 64]");
  EXPECT_EQ(shape_of(Reshape{{rows, -1, 64}}, "f32[rows, 192]"), "f32[rows, 3, 64]");
  EXPECT_EQ(shape_of(Reshape{{-1, 64}}, "f32[rows, 192]"), "f32[3*rows, 64]");
  EXPECT_EQ(shape_of(Reshape{{batch * seq, 8}}, "f32[batch, seq, 8]"), "f32[batch*seq, 8]");
  EXPECT_EQ(shape_of(Reshape{{batch, -1}}, "f32[batch, seq, 8]"), "f32[batch, 8*seq]");
  EXPECT_EQ(shape_error(Reshape{{rows, 64}}, {"f32[rows + 1, 64]"}),
            "reshape: x [rows + 1, 64] has 64*rows + 64 values but dims [rows, 64] have 64*rows");
  EXPECT_EQ(shape_error(Reshape{{seq, -1}}, {"f32[rows, 64]"}),
            "reshape: dims: the size for -1 in [seq, -1] is not known: 64*rows is no multiple of "
            "seq");
}

// What is open is decided by the binding.
TEST(ShapeOps, ReshapeIsCheckedWhenBound) {
  Graph graph;
  Builder b(graph);
  graph.set_outputs({{"y", b(Reshape{{-1, 4}}, b.input("x", Shape::parse("f32[rows, 6]")))}});
  EXPECT_EQ(graph.shape(graph.outputs()[0].value).text(), "f32[ceil_div(rows, 2) + rows, 4]");
  const Graph bound = bind(graph, {{sym::rows, 2}});
  EXPECT_EQ(bound.shape(bound.outputs()[0].value).text(), "f32[3, 4]");
  EXPECT_THROW(bind(graph, {{sym::rows, 3}}), Error);
}

TEST(ShapeOps, ExpandAndSqueezeAreReshapes) {
  const Shape x = Shape::parse("f32[rows, 7]");
  EXPECT_EQ(shape_of(expand_dims(x, 0), x.text()), "f32[1, rows, 7]");
  EXPECT_EQ(shape_of(expand_dims(x, -1), x.text()), "f32[rows, 7, 1]");
  EXPECT_EQ(shape_of(squeeze(Shape::parse("f32[rows, 1, 7]"), 1), "f32[rows, 1, 7]"),
            "f32[rows, 7]");
  EXPECT_THROW(expand_dims(x, 3), Error);
  try {
    squeeze(x, -1);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "squeeze: axis -1 of f32[rows, 7]: expected a size of 1, found 7");
  }
}

TEST(ShapeOps, Transpose) {
  expect_near(run_op(Transpose{}, {counted({2, 3})}), {0, 3, 1, 4, 2, 5}, 0);
  const Tensor y = run_op(Transpose{{2, 0, 1}}, {counted({2, 3, 2})});
  EXPECT_EQ(y.text(), "f32[2, 2, 3]");
  expect_near(y, {0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}, 0);
  EXPECT_EQ(shape_of(Transpose{{1, 0, 2}}, "f32[rows, 3, 64]"), "f32[3, rows, 64]");
  EXPECT_EQ(shape_error(Transpose{{0, 0}}, {"f32[2, 3]"}),
            "transpose: axes: expected a permutation of the 2 axes of x [2, 3], found 0,0");
  EXPECT_EQ(shape_error(Transpose{{0}}, {"f32[2, 3]"}),
            "transpose: axes: expected a permutation of the 2 axes of x [2, 3], found 0");
  EXPECT_EQ(shape_error(Transpose{{1, 2}}, {"f32[2, 3]"}),
            "transpose: axes: expected a permutation of the 2 axes of x [2, 3], found 1,2");
}

TEST(ShapeOps, Slice) {
  expect_near(run_op(Slice{.axis = 1, .start = 1, .stop = 4, .step = 2}, {counted({2, 5})}),
              {1, 3, 6, 8}, 0);
  expect_near(run_op(Slice{.axis = 0, .start = 1, .stop = 2}, {counted({3, 2})}), {2, 3}, 0);
  const Dim rows = sym::rows;
  EXPECT_EQ(shape_of(Slice{.axis = 0, .start = 1, .stop = rows}, "f32[rows, 7]"),
            "f32[rows - 1, 7]");
  EXPECT_EQ(shape_of(Slice{.axis = 0, .stop = rows, .step = 4}, "f32[rows, 7]"),
            "f32[ceil_div(rows, 4), 7]");
}

TEST(ShapeOps, SliceOutsideIsAnError) {
  EXPECT_EQ(shape_error(Slice{.axis = 1, .start = 2, .stop = 6}, {"f32[3, 5]"}),
            "slice: start 2 and stop 6 are outside axis 1 of x [3, 5]");
  EXPECT_EQ(shape_error(Slice{.axis = 1, .start = -1, .stop = 5}, {"f32[3, 5]"}),
            "slice: start -1 and stop 5 are outside axis 1 of x [3, 5]");
  EXPECT_EQ(shape_error(Slice{.axis = 1, .start = 3, .stop = 2}, {"f32[3, 5]"}),
            "slice: start: expected at most stop = 2, found 3");
  EXPECT_EQ(shape_error(Slice{.axis = 1, .stop = 2, .step = 0}, {"f32[3, 5]"}),
            "slice: step: expected a value from 1 to 2147483647, found 0");
  EXPECT_EQ(shape_error(Slice{.axis = 2, .stop = 2}, {"f32[3, 5]"}),
            "slice: axis: expected a value from -2 to 1 for x [3, 5], found 2");
  EXPECT_EQ(shape_error(Slice{.axis = 0, .stop = Dim(sym::rows) + 1}, {"f32[rows, 5]"}),
            "slice: start 0 and stop rows + 1 are outside axis 0 of x [rows, 5]");
}

// Order is decided by the binding too, at its edge and far from it.
TEST(ShapeOps, SliceIsCheckedWhenBound) {
  Graph graph;
  Builder b(graph);
  const Value x = b.input("x", Shape::parse("f32[rows, 3]"));
  graph.set_outputs(
      {{"head", b(Slice{.axis = 0, .stop = 8}, x)},
       {"last", b(Slice{.axis = 0, .start = Dim(sym::rows) - 1, .stop = sym::rows}, x)}});
  for (const std::int64_t rows : {8, 9, 100000, 2000000000})
    EXPECT_NO_THROW(bind(graph, {{sym::rows, rows}})) << rows;
  for (const std::int64_t rows : {0, 1, 7}) {
    try {
      bind(graph, {{sym::rows, rows}});
      ADD_FAILURE() << rows;
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).find("slice: start 0 and stop 8 are outside axis 0 of x "),
                0u)
          << e.what();
    }
  }
  std::vector<float> values;
  for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(i));
  const NamedTensor input[] = {{"x", f32({8, 3}, values)}};
  expect_near(Interpreter(bind(graph, {{sym::rows, 8}})).run(input)[1].tensor, {21, 22, 23}, 0);
}

TEST(ShapeOps, Concat) {
  const Tensor y = run_op(Concat{1}, {counted({2, 2}), f32({2, 1}, {10, 20}), counted({2, 2})});
  EXPECT_EQ(y.text(), "f32[2, 5]");
  expect_near(y, {0, 1, 10, 0, 1, 2, 3, 20, 2, 3}, 0);
  EXPECT_EQ(shape_error(Concat{0}, {"f32[rows, 4]", "f32[batch, 4]"}), "no error");
  EXPECT_EQ(shape_error(Concat{0}, {"f32[2, 4]", "f32[2, 5]"}),
            "concat: operand 0 [2, 4] and operand 1 [2, 5] differ in axis 1");
  EXPECT_EQ(shape_error(Concat{0}, {"f32[2, 4]", "f16[2, 4]"}),
            "concat: operand 1: expected f32 of rank 2 as operand 0, found f16[2, 4]");
  EXPECT_EQ(shape_error(Concat{0}, {}), "concat: expected at least 1 operands, found 0");
}

TEST(ShapeOps, Pad) {
  expect_near(run_op(Pad{.axis = 1, .before = 1, .after = 2, .value = -1}, {counted({2, 2})}),
              {-1, 0, 1, -1, -1, -1, 2, 3, -1, -1}, 0);
  const Dim rows = sym::rows;
  EXPECT_EQ(shape_of(Pad{.axis = 0, .after = 16 * ceil_div(rows, 16) - rows}, "f32[rows, 7]"),
            "f32[16*ceil_div(rows, 16), 7]");
  EXPECT_EQ(shape_error(Pad{.before = -1}, {"f32[5]"}),
            "pad: before: expected a size of at least 0, found -1");
  EXPECT_EQ(shape_error(Pad{.after = 1, .value = 0.5f}, {"i32[5]"}),
            "pad: value: expected an integer for i32, found 0.5");
}

TEST(ShapeOps, BroadcastTo) {
  expect_near(run_op(BroadcastTo{{2, 2, 2}}, {f32({2, 1}, {1, 2})}), {1, 1, 2, 2, 1, 1, 2, 2}, 0);
  EXPECT_EQ(shape_of(BroadcastTo{{sym::rows, 7}}, "f32[7]"), "f32[rows, 7]");
  EXPECT_EQ(shape_error(BroadcastTo{{3, 5}}, {"f32[2, 5]"}),
            "broadcast_to: x [2, 5] does not broadcast to dims [3, 5]");
  EXPECT_EQ(shape_error(BroadcastTo{{5}}, {"f32[1, 5]"}),
            "broadcast_to: x [1, 5] does not broadcast to dims [5]");
}

TEST(ShapeOps, StatesAndBlocksAreRefused) {
  EXPECT_EQ(shape_error(Reshape{{-1}}, {"kv<f16>[2, 64]"}),
            "reshape: x: expected a tensor, found kv<f16>[2, 64]");
  EXPECT_EQ(shape_error(Transpose{}, {"q4_0[32, 32]"}),
            "transpose: x: expected a dtype without blocks, found q4_0[32, 32]");
}

TEST(ShapeOps, ListsInText) {
  const OpDef& reshape = op_def<Reshape>();
  const Dim rows = sym::rows;
  const Reshape op{{rows + 1, ceil_div(rows, 16), -1}};
  const std::string text = reshape.print(to_blob(op));
  EXPECT_EQ(text, " dims=rows+1,ceil_div(rows,16),-1");
  AttrBlob blob = reshape.defaults();
  EXPECT_TRUE(reshape.set(blob, "dims", text.substr(6)));
  EXPECT_TRUE(reshape.equal(blob, to_blob(op)));
  for (const char* bad : {"", "1,", ",1", "1,,2", "1,2,3,4,5,6,7", "1;2", "ceil_div(rows,4"})
    EXPECT_FALSE(reshape.set(blob, "dims", bad)) << bad;
  const OpDef& transpose = op_def<Transpose>();
  AttrBlob axes = transpose.defaults();
  EXPECT_TRUE(transpose.set(axes, "axes", "1,-3,0"));
  EXPECT_TRUE(transpose.equal(axes, to_blob(Transpose{{1, -3, 0}})));
  for (const char* bad : {"", "1,", "a", "1.5", "0,1,2,3,4,5,6", "99999999999"})
    EXPECT_FALSE(transpose.set(axes, "axes", bad)) << bad;
  EXPECT_THROW((Axes{0, 1, 2, 3, 4, 5, 6}), Error);
  EXPECT_THROW((DimList{1, 1, 1, 1, 1, 1, 1}), Error);
}

}  // namespace
}  // namespace rlx
