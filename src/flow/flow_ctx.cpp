#include "flow/flow_ctx.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::size_t kIssuesShown = 10;

std::string shape_text(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Shape shape_of(std::span<const std::int64_t> dims, DType dtype) {
  std::vector<Dim> sizes(dims.begin(), dims.end());
  return Shape(std::span<const Dim>(sizes), dtype);
}

bool is_weight(DType d) { return is_float(d) || is_quantized(d); }

std::vector<float> decode(const WeightRef& w) {
  std::int64_t n = 1;  // the rows of a tensor lie one after the other
  for (const std::int64_t d : w.shape) n *= d;
  std::vector<float> values(static_cast<std::size_t>(n));
  decoder(w.dtype)(w.data.data(), values.data(), n);
  return values;
}

std::vector<std::int64_t> without_ones(std::vector<std::int64_t> dims) {
  dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
  return dims;
}

bool is_aligned(const WeightRef& w) {
  return reinterpret_cast<std::uintptr_t>(w.data.data()) % alignof(float) == 0;
}

}  // namespace

FlowCtx::FlowCtx(std::string graph_name, const WeightSource& weights)
    : graph_(std::move(graph_name), Stage::hir), builder_(graph_), weights_(&weights) {}

void FlowCtx::report(std::string_view key, const Dims& expected, std::string found) {
  if (used_.insert(std::string(key)).second)
    issues_.push_back(fmt::format("{}: expected {}, {}", key, shape_text(expected), found));
}

const WeightRef* FlowCtx::lookup(std::string_view key, const Dims& expected) {
  const WeightRef* w = weights_->find(key);
  if (!w) {
    report(key, expected, "missing");
    return nullptr;
  }
  if (w->shape != expected || !is_weight(w->dtype)) {
    report(key, expected, fmt::format("found {}{}", name(w->dtype), shape_text(w->shape)));
    return nullptr;
  }
  used_.insert(std::string(key));
  return w;
}

const WeightRef& FlowCtx::existing(std::string_view key) {
  const WeightRef* w = weights_->find(key);
  if (!w)
    fail(ErrorCode::format, "{}: {} needs the tensor \"{}\", which is missing", weights_->origin(),
         stage(), key);
  used_.insert(std::string(key));
  return *w;
}

Value FlowCtx::declare(std::string_view key, bool transpose, const WeightRef& weight) {
  Dims shape = weight.shape;
  if (transpose) {
    if (shape.size() != 2 || is_quantized(weight.dtype))
      fail(ErrorCode::unsupported,
           "{}: {}: only a matrix of a plain dtype can be read transposed, found {}{}",
           weights_->origin(), key, name(weight.dtype), shape_text(shape));
    std::swap(shape[0], shape[1]);
  }
  std::string param = transpose ? fmt::format("{}.T", key) : std::string(key);
  const Value v = builder_.param(param, shape_of(shape, weight.dtype));
  params_.push_back(ModelParam{std::move(param), weight, nullptr, transpose});
  declared_.emplace(std::pair(std::string(key), transpose), Declared{v, weight.shape});
  return v;
}

Value FlowCtx::wrap(Value v, const Shape& shape) const {
  if (!(node_shape(v) == shape))
    fail(ErrorCode::shape, "{}: expected a value of {}, found {}", stage(), shape.text(), node_shape(v).text());
  return v;
}

Value FlowCtx::load_param(std::string_view key, bool transpose) {
  const auto known = declared_.find(std::pair(std::string(key), transpose));
  return known != declared_.end() ? known->second.value : declare(key, transpose, existing(key));
}

Value FlowCtx::known_param(std::string_view key, bool transpose, const Dims& dims) const {
  const auto known = declared_.find(std::pair(std::string(key), transpose));
  if (known == declared_.end()) return {};
  if (known->second.shape != dims)
    fail(ErrorCode::shape, "{}: {}: one stage reads it as {}, {} as {}", weights_->origin(), key,
         shape_text(known->second.shape), stage(), shape_text(dims));
  return known->second.value;
}

Value FlowCtx::load_matrix(std::string_view key, std::int64_t out, std::int64_t in,
                           bool transpose) {
  const Dims expected = {out, in};
  if (const Value known = known_param(key, transpose, expected)) return known;
  if (const WeightRef* w = lookup(key, expected)) return declare(key, transpose, *w);
  return declare(key, transpose, WeightRef{std::string(key), DType::f32, expected, {}, nullptr});
}

Value FlowCtx::load_stack(std::string_view key, const StackShape& shape) {
  const Dims expected = {shape.count, shape.out, shape.in};
  if (const Value known = known_param(key, false, expected)) return known;
  if (const WeightRef* w = lookup(key, expected)) return declare(key, false, *w);
  return declare(key, false, WeightRef{std::string(key), DType::f32, expected, {}, nullptr});
}

// The bytes of a part; nothing when it is missing or has another shape.
std::optional<WeightRef> FlowCtx::part_of(const MatrixPart& part, const StackShape& shape) {
  RLX_CHECK(part.first >= 0 && part.first + shape.out <= part.rows, part.key);
  const WeightRef* w = part.matrices == 0 ? lookup(part.key, {part.rows, shape.in})
                                          : lookup(part.key, {part.matrices, part.rows, shape.in});
  if (w == nullptr) return std::nullopt;
  const auto row = static_cast<std::size_t>(row_bytes(w->dtype, shape.in));
  const auto first = static_cast<std::size_t>(part.matrix * part.rows + part.first);
  WeightRef rows = *w;
  rows.shape = {shape.out, shape.in};
  rows.data = w->data.subspan(first * row, static_cast<std::size_t>(shape.out) * row);
  return rows;
}

Value FlowCtx::load_stack(std::string_view param, const PartOf& part, const StackShape& shape) {
  const Dims dims = {shape.count, shape.out, shape.in};
  if (const Value known = known_param(param, false, dims)) return known;
  std::vector<WeightRef> stored;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    std::optional<WeightRef> w = part_of(part(i), shape);
    if (!w) break;
    if (!stored.empty() && stored.front().dtype != w->dtype)
      fail(ErrorCode::unsupported, "{}: {}: expected matrices of one element type, found {} and {}",
           weights_->origin(), param, name(stored.front().dtype), name(w->dtype));
    stored.push_back(std::move(*w));
  }
  const DType dtype = stored.empty() ? DType::f32 : stored.front().dtype;
  const Value v = declare(param, false, WeightRef{std::string(param), dtype, dims, {}, nullptr});
  params_.back().parts = std::move(stored);
  return v;
}

Value FlowCtx::load_vector(std::string_view key, std::int64_t n) { return load_viewed(key, {n}, {n}, true); }

Value FlowCtx::load_rows(std::string_view key, std::int64_t out, std::int64_t in, RowRange rows) {
  RLX_CHECK(rows.first >= 0 && rows.count > 0 && rows.first + rows.count <= out, std::string(key));
  const std::string name = fmt::format("{}[{}:{}]", key, rows.first, rows.first + rows.count);
  if (const Value known = known_param(name, false, {rows.count, in})) return known;
  WeightRef part{name, DType::f32, {rows.count, in}, {}, nullptr};
  if (const WeightRef* w = lookup(key, {out, in})) {
    const auto bytes = static_cast<std::size_t>(row_bytes(w->dtype, in));
    part.dtype = w->dtype;
    part.file = w->file;
    part.data = w->data.subspan(static_cast<std::size_t>(rows.first) * bytes,
                                static_cast<std::size_t>(rows.count) * bytes);
  }
  return declare(name, false, part);
}

std::vector<float> FlowCtx::read_values(std::string_view key, std::vector<std::int64_t> dims) {
  const WeightRef* stored = weights_->find(key);
  if (stored && without_ones(stored->shape) == without_ones(dims)) dims = stored->shape;
  const WeightRef* w = lookup(key, dims);
  return w ? decode(*w) : std::vector<float>{};
}

Value FlowCtx::load_viewed(std::string_view key, const Dims& stored, const Dims& as, bool widen) {
  if (const Value known = known_param(key, false, as)) return known;
  const WeightRef* w = lookup(key, stored);
  if (!w) return declare(key, false, WeightRef{std::string(key), DType::f32, as, {}, nullptr});
  WeightRef viewed = *w;
  viewed.shape = as;
  if (!widen || (w->dtype == DType::f32 && is_aligned(*w))) return declare(key, false, viewed);
  auto owned = std::make_shared<const std::vector<float>>(decode(*w));
  const Value v =
      declare(key, false, WeightRef{w->name, DType::f32, as, std::as_bytes(std::span(*owned)), nullptr});
  params_.back().owned = std::move(owned);
  return v;
}

Value FlowCtx::load_as(std::string_view key, const Dims& stored, const Dims& as) {
  return load_viewed(key, stored, as, false);
}
Value FlowCtx::load_table(std::string_view key, const Dims& stored, const Dims& as) {
  return load_viewed(key, stored, as, true);
}

std::vector<float> FlowCtx::read_vector(std::string_view key, std::int64_t n) {
  const WeightRef* w = lookup(key, {n});
  return w ? decode(*w) : std::vector<float>{};
}

Value FlowCtx::synth_param(std::string_view param, std::vector<float> data, const Shape& shape) {
  Dims dims;
  for (const Dim d : shape.dims()) dims.push_back(d.evaluate({}));
  if (data.empty() && !issues_.empty())
    return declare(param, false, WeightRef{std::string(param), DType::f32, dims, {}, nullptr});
  if (shape.elements().evaluate({}) != static_cast<std::int64_t>(data.size()))
    fail(ErrorCode::shape, "{}: the param \"{}\" has shape {} but {} values", stage(), param,
         shape.text(), data.size());
  const Value v = builder_.param(std::string(param), shape);
  auto owned = std::make_shared<const std::vector<float>>(std::move(data));
  WeightRef weight{std::string(param), DType::f32, std::move(dims),
                   std::as_bytes(std::span(*owned)), nullptr};
  params_.push_back(ModelParam{std::string(param), std::move(weight), std::move(owned), false});
  return v;
}

Value FlowCtx::synth_zeros(std::string_view param, std::int64_t n) {
  if (n < 0) fail(ErrorCode::shape, "{}: the param \"{}\" has {} values", stage(), param, n);
  return synth_param(param, std::vector<float>(static_cast<std::size_t>(n)),
                     Shape({Dim(n)}, DType::f32));
}

Value FlowCtx::input(std::string_view input_name, const Shape& shape) {
  return builder_.input(std::string(input_name), shape);
}
Value FlowCtx::state(std::string_view state_name, const Shape& shape) {
  return builder_.state(std::string(state_name), shape);
}

void FlowCtx::fail_collected() const {
  std::string list;
  for (std::size_t i = 0; i < std::min(issues_.size(), kIssuesShown); ++i)
    list += fmt::format("\n  {}", issues_[i]);
  if (issues_.size() > kIssuesShown)
    list += fmt::format("\n  and {} more", issues_.size() - kIssuesShown);
  fail(ErrorCode::shape, "{}: {} tensor{} missing or of another shape than the model's:{}",
       weights_->origin(), issues_.size(), issues_.size() == 1 ? " is" : "s are", list);
}

BuiltModel FlowCtx::finish(std::vector<Output> outputs) {
  if (!issues_.empty()) fail_collected();
  BuiltModel model;
  for (std::string& stored : weights_->names())
    if (used_.find(stored) == used_.end()) model.unused.push_back(std::move(stored));
  for (const std::string& key : used_) {
    const WeightRef* w = weights_->find(key);
    std::int64_t elements = 1;
    for (const std::int64_t d : w->shape) elements *= d;
    model.info.parameters += elements;
    model.info.weight_bytes += static_cast<std::int64_t>(w->data.size());
  }
  graph_.set_outputs(std::move(outputs));
  model.graph = std::move(graph_);
  model.params = std::move(params_);
  return model;
}

}  // namespace rlx
