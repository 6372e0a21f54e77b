#include "ops/conv.h"

#include <algorithm>

#include "ops/access.h"
#include "ops/checks.h"
#include "ops/samples.h"

namespace rlx {
namespace {

// What both convolutions ask of their operands; the groups divide the first axis of w.
void check_conv_operands(InferContext& c, int groups, bool bias, const WindowAttrs& attrs) {
  checks::operand_count(c, 2 + bias, "x, w, then bias by its flag");
  c.dtype(0, {DType::f32});
  checks::array(c, 0);
  checks::array(c, 1, {DType::f32, DType::f16, DType::bf16});
  check_window(c, 0, attrs);
  const Shape &x = c.in(0), &w = c.in(1);
  if (w.rank() != x.rank()) c.fail("w: expected rank {} as x has, found {}", x.rank(), w.text());
  if (groups < 1) c.fail("groups: expected at least 1, found {}", groups);
  const Dim channels = w.dim(0);
  checks::same(c, ceil_div(channels, groups) * groups, channels, [&] {
    return fmt::format("w {}: its first dim is no multiple of {} groups", checks::dims_text(w), groups);
  });
}

void check_channels(InferContext& c, Dim of_w) {
  const Shape &x = c.in(0), &w = c.in(1);
  checks::same(c, x.dim(1), of_w, [&] {
    return fmt::format("x {} has {} channels but w {} takes {}", checks::dims_text(x), x.dim(1).text(),
                       checks::dims_text(w), of_w.text());
  });
}

// The channels of x, w and y of a group, and the sizes of the window.
struct ConvSizes {
  WindowPlan plan;
  std::int64_t batch, in_channels, out_channels, group_in, group_out;
};

template <typename Op>
ConvSizes conv_sizes(const Op& op, const KernelArgs& a) {
  const TensorView &x = a.in[0], &y = a.out[0];
  const std::int64_t in = x.dims[1], out = y.dims[1];
  return {window_plan(x, y, a.in[1].dims + 2, op.window()), x.dims[0], in, out, in / op.groups, out / op.groups};
}

std::vector<double> load_range(const TensorView& v, std::int64_t begin, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = access::load_at(v, begin + i);
  return values;
}

// For each (batch, channel of y) of this worker: its values begin as the bias, add(values, batch, channel, c) adds what
// channel c of the group's channels of x gives.
template <typename Op, typename F>
void each_channel(const Op& op, const KernelArgs& a, const ConvSizes& s, F add) {
  const std::int64_t places = s.plan.outputs();
  std::vector<double> values(static_cast<std::size_t>(places));
  const auto part = access::part_of(a, s.batch * s.out_channels);
  for (std::int64_t line = part.begin; line < part.end; ++line) {
    const std::int64_t n = line / s.out_channels, o = line % s.out_channels;
    std::fill(values.begin(), values.end(), op.bias ? access::load_at(a.in[2], o) : 0.0);
    for (std::int64_t c = 0; c < s.group_in; ++c) add(values, n, o, c);
    for (std::int64_t i = 0; i < places; ++i)
      access::store_at(a.out[0], line * places + i, values[static_cast<std::size_t>(i)]);
  }
}

// The flat place, in `dims`, of window position p * stride + k * dilation - begin; -1 outside.
std::int64_t window_place(const WindowPlan& w, const std::array<std::int64_t, 3>& p,
                          const std::array<std::int64_t, 3>& k, const std::int64_t (&dims)[3]) {
  std::int64_t flat = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t at = p[a] * w.stride[a] + k[a] * w.dilation[a] - w.begin[a];
    if (at < 0 || at >= dims[a]) return -1;
    flat = flat * dims[a] + at;
  }
  return flat;
}

}  // namespace

void Conv::infer(InferContext& c) const {
  check_conv_operands(c, groups, bias, window());
  const Shape &x = c.in(0), &w = c.in(1);
  check_channels(c, w.dim(1) * groups);
  if (bias) checks::vector(c, 2, DType::f32, w.dim(0), "the rows of w");
  std::vector<Dim> dims = {x.dim(0), w.dim(0)};
  for (int i = 0; i + 2 < x.rank(); ++i) dims.push_back(window_count(c, i, w.dim(2 + i), window()));
  c.out(Shape(dims, DType::f32));
}

void Conv::reference(const KernelArgs& a) const {
  const ConvSizes s = conv_sizes(*this, a);
  const WindowPlan& p = s.plan;
  each_channel(*this, a, s, [&](std::vector<double>& values, std::int64_t n, std::int64_t o, std::int64_t c) {
    const std::int64_t from = o / s.group_out * s.group_in + c;
    const std::vector<double> x = load_range(a.in[0], (n * s.in_channels + from) * p.inputs(), p.inputs()),
                              w = load_range(a.in[1], (o * s.group_in + c) * p.taps(), p.taps());
    each_place(p.out, [&](const auto& at, std::int64_t i) {
      each_place(p.kernel, [&](const auto& k, std::int64_t tap) {
        if (const std::int64_t j = window_place(p, at, k, p.in); j >= 0)
          values[static_cast<std::size_t>(i)] += w[static_cast<std::size_t>(tap)] * x[static_cast<std::size_t>(j)];
      });
    });
  });
}

void ConvTransposed::infer(InferContext& c) const {
  check_conv_operands(c, groups, bias, window());
  const Shape &x = c.in(0), &w = c.in(1);
  check_channels(c, w.dim(0));
  check_extents(c, "output_padding", output_padding, x.rank() - 2, 0);
  const Dim out = w.dim(1) * groups;
  if (bias) checks::vector(c, 2, DType::f32, out, "the channels of w times groups");
  std::vector<Dim> dims = {x.dim(0), out};
  for (int i = 0; i + 2 < x.rank(); ++i) {
    const int stride = strides.get(i, 1), dilation = dilations.get(i, 1), more = output_padding.get(i, 0);
    if (more >= std::max(stride, dilation) && more > 0)
      c.fail("output_padding {}: expected less than the stride {} or the dilation {}", output_padding.text(), stride,
             dilation);
    const Dim size = (x.dim(2 + i) - 1) * stride + window_extent(w.dim(2 + i), dilation) + more -
                     (pads_begin.get(i, 0) + pads_end.get(i, 0));
    checks::at_most(c, 1, size, [&] {
      return fmt::format("spatial axis {}: the paddings leave {} of the result", i, size.text());
    });
    dims.push_back(size);
  }
  c.out(Shape(dims, DType::f32));
}

void ConvTransposed::reference(const KernelArgs& a) const {
  const ConvSizes s = conv_sizes(*this, a);
  const WindowPlan& p = s.plan;
  each_channel(*this, a, s, [&](std::vector<double>& values, std::int64_t n, std::int64_t o, std::int64_t c) {
    const std::int64_t from = o / s.group_out * s.group_in + c;
    const std::vector<double> x = load_range(a.in[0], (n * s.in_channels + from) * p.inputs(), p.inputs()),
                              w = load_range(a.in[1], (from * s.group_out + o % s.group_out) * p.taps(), p.taps());
    each_place(p.in, [&](const auto& at, std::int64_t i) {
      each_place(p.kernel, [&](const auto& k, std::int64_t tap) {
        if (const std::int64_t j = window_place(p, at, k, p.out); j >= 0)
          values[static_cast<std::size_t>(j)] += w[static_cast<std::size_t>(tap)] * x[static_cast<std::size_t>(i)];
      });
    });
  });
}

namespace {

using Sizes = std::vector<std::int64_t>;

// A convolution of [batch, groups * in, size...] with groups * out channels.
struct ConvCase {
  std::string_view name;
  std::int64_t batch, groups, in, out;
  Sizes size, kernel;
  WindowAttrs window;
  Extents output_padding{};
  bool bias = false;
  DType dtype = DType::f32;
};

SampleOperand normal_of(const Sizes& lead, const Sizes& spatial, DType dtype = DType::f32) {
  std::vector<Dim> dims(lead.begin(), lead.end());
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return {Shape(dims, dtype), Fill::normal, 1.0f, {}};
}

template <typename Op>
Sample conv_sample(Op op, const ConvCase& s) {
  std::tie(op.strides, op.dilations, op.pads_begin, op.pads_end) =
      std::tie(s.window.strides, s.window.dilations, s.window.pads_begin, s.window.pads_end);
  op.groups = static_cast<std::int32_t>(s.groups);
  op.bias = s.bias;
  std::vector<SampleOperand> in = {normal_of({s.batch, s.groups * s.in}, s.size)};
  if constexpr (std::is_same_v<Op, ConvTransposed>) {
    op.output_padding = s.output_padding;
    in.push_back(normal_of({s.groups * s.in, s.out}, s.kernel, s.dtype));
  } else {
    in.push_back(normal_of({s.groups * s.out, s.in}, s.kernel, s.dtype));
  }
  if (s.bias) in.push_back(samples::normal({s.groups * s.out}));
  std::int64_t taps = s.in;
  for (const std::int64_t k : s.kernel) taps *= k;
  return make_sample(std::string(s.name), op, std::move(in), taps);
}

}  // namespace

std::vector<Sample> Conv::samples() {
  const ConvCase cases[] = {
      {.name = "one_value", .batch = 1, .groups = 1, .in = 1, .out = 1, .size = {1}, .kernel = {1}, .window = {}},
      {"line", 2, 1, 3, 5, {19}, {4}, {}},
      {"line_strided", 1, 1, 4, 16, {100}, {10}, {{7}, {}, {3}, {0}}, {}, true},
      {"line_dilated_asymmetric", 3, 2, 2, 3, {17}, {3}, {{2}, {5}, {0}, {9}}},
      {"line_long_kernel", 1, 1, 2, 7, {40}, {33}, {{1}, {}, {32}, {0}}, {}, true, DType::f16},
      {"line_depthwise", 2, 17, 1, 1, {37}, {4}, {{}, {}, {3}, {0}}, {}, true},
      {"plane", 1, 1, 3, 8, {8, 9}, {3, 3}, {{}, {}, {1, 1}, {1, 1}}},
      {"plane_blocks", 1, 1, 32, 13, {12, 11}, {3, 3}, {{}, {}, {1, 1}, {1, 1}}, {}, true},
      {"plane_pointwise", 2, 1, 19, 6, {7, 5}, {1, 1}, {}, {}, false, DType::bf16},
      {"plane_strided", 2, 2, 3, 5, {13, 10}, {3, 2}, {{2, 3}, {2, 1}, {2, 0}, {1, 3}}, {}, true, DType::f16},
      {"plane_kernel_above_input", 1, 1, 2, 3, {2, 3}, {5, 7}, {{1, 2}, {}, {2, 4}, {3, 1}}},
      {"plane_patches", 1, 1, 3, 24, {28, 42}, {14, 14}, {{14, 14}, {}, {}, {}}, {}, true},
      {"plane_depthwise", 1, 6, 1, 1, {21, 18}, {3, 3}, {{}, {}, {1, 1}, {1, 1}}, {}, true},
      {"plane_depthwise_gaps", 2, 3, 1, 2, {9, 23}, {5, 3}, {{2, 2}, {1, 3}, {4, 0}, {0, 7}}, {}, false, DType::bf16},
      {"volume", 1, 1, 2, 4, {5, 6, 7}, {3, 2, 3}, {{}, {}, {1, 0, 1}, {1, 1, 1}}, {}, true},
      {"volume_strided_groups", 2, 2, 3, 3, {7, 5, 9}, {2, 3, 3}, {{2, 1, 3}, {3, 2, 1}, {0, 2, 1}, {1, 0, 2}}},
      {"padding_only", 1, 1, 1, 2, {1, 1}, {1, 1}, {{3, 3}, {}, {3, 6}, {6, 3}}, {}, true},
  };
  std::vector<Sample> list;
  for (const ConvCase& s : cases) list.push_back(conv_sample(Conv{}, s));
  return list;
}

std::vector<Sample> ConvTransposed::samples() {
  const ConvCase cases[] = {
      {.name = "one_value", .batch = 1, .groups = 1, .in = 1, .out = 1, .size = {1}, .kernel = {1}, .window = {}},
      {"line", 2, 1, 3, 5, {19}, {4}, {}},
      {"line_upsampled", 1, 1, 4, 6, {23}, {16}, {{8}, {}, {4}, {4}}, {}, true},
      {"line_gaps", 1, 1, 2, 3, {9}, {2}, {{5}, {}, {}, {}}, {4}, true},
      {"line_dilated", 2, 2, 2, 3, {11}, {3}, {{4}, {6}, {5}, {0}}, {5}, false, DType::f16},
      {"line_depthwise", 1, 9, 1, 1, {14}, {4}, {{2}, {}, {1}, {1}}},
      {"plane", 1, 1, 3, 8, {8, 9}, {3, 3}, {{}, {}, {1, 1}, {1, 1}}},
      {"plane_blocks", 1, 1, 40, 7, {9, 10}, {4, 4}, {{2, 2}, {}, {1, 1}, {1, 1}}, {1, 0}, true},
      {"plane_strided", 2, 2, 3, 5, {6, 5}, {3, 2}, {{2, 3}, {2, 1}, {2, 0}, {1, 3}}, {1, 2}, true, DType::bf16},
      {"volume", 1, 1, 2, 4, {3, 4, 5}, {3, 2, 3}, {{2, 1, 3}, {}, {1, 0, 2}, {0, 1, 1}}, {0, 0, 2}, true},
      {"volume_groups", 2, 3, 2, 2, {4, 3, 5}, {2, 3, 1}, {{1, 2, 2}, {3, 2, 1}, {}, {}}, {2, 1, 1}},
  };
  std::vector<Sample> list;
  for (const ConvCase& s : cases) list.push_back(conv_sample(ConvTransposed{}, s));
  return list;
}

}  // namespace rlx
