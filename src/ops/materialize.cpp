#include "ops/materialize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "ops/sample_random.h"
#include "tensor/quant/block_scale.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

std::vector<std::int64_t> dims_of(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (Dim d : shape.dims()) dims.push_back(d.evaluate({}));
  return dims;
}

// Random blocks. The factors bring the decoded values near `scale`: codes and sub-scales of these
// formats reach some hundred.
Tensor random_blocks(const Shape& shape, float scale, SampleRandom& random) {
  Tensor t = Tensor::zeros(dims_of(shape), shape.dtype);
  const auto block = static_cast<std::size_t>(info(shape.dtype).block_bytes);
  auto bytes = t.mutable_as<std::byte>();
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next() & 255);
  const auto factor = [&] { return scale * static_cast<float>(0.005 + 0.005 * random.uniform()); };
  for (std::size_t at = 0; at < bytes.size(); at += block) {
    const float d = factor();
    set_block_scale(shape.dtype, bytes.data() + at, d, factor());
  }
  return t;
}

Tensor encoded(const Shape& shape, const std::vector<float>& values) {
  Tensor t = Tensor::zeros(dims_of(shape), shape.dtype);
  if (values.empty()) return t;
  const std::int64_t k = t.dims().empty() ? 1 : t.dims().back(), bytes = row_bytes(shape.dtype, k);
  for (std::int64_t r = 0; r < t.elements() / k; ++r)
    encoder(shape.dtype)(values.data() + r * k, t.mutable_data() + r * bytes, k);
  return t;
}

Tensor normal_values(const SampleOperand& o, SampleRandom& random) {
  if (encoder(o.shape.dtype) == nullptr) return random_blocks(o.shape, o.scale, random);
  std::vector<float> values(static_cast<std::size_t>(o.shape.elements().evaluate({})));
  for (float& v : values) v = random.normal(o.scale);
  return encoded(o.shape, values);
}

Tensor cache_content(const SampleOperand& o, SampleRandom& random) {
  std::int64_t tokens = 0;
  for (std::int32_t n : o.ints) tokens += n;
  const std::vector<std::int64_t> dims = dims_of(o.shape);
  Tensor t = Tensor::zeros({2, tokens, dims[0], dims[1]});
  for (float& v : t.mutable_as<float>()) v = random.normal(o.scale);
  return t;
}

std::int64_t slots_of(const Sample& sample) {
  for (const SampleOperand& o : sample.operands)
    if (o.fill == Fill::kv) return static_cast<std::int64_t>(o.ints.size());
  RLX_CHECK(false, "a sample with a page table has a cache: " + sample.name);
  return 0;
}

// The shape of all slots of a recurrent state.
Shape recurrent_rows(const SampleOperand& o) {
  std::vector<Dim> dims = {Dim(o.ints[0])};
  for (Dim d : o.shape.dims()) dims.push_back(d);
  return Shape(std::span<const Dim>(dims), o.shape.dtype);
}

Tensor value_of(const Sample& sample, const SampleOperand& o, SampleRandom& random) {
  const auto n = static_cast<std::int64_t>(o.ints.size());
  switch (o.fill) {
    case Fill::normal:
      return normal_values(o, random);
    case Fill::given:
      return Tensor::from(dims_of(o.shape), o.ints);
    case Fill::kv:
      return cache_content(o, random);
    case Fill::pages:
      return Tensor::from({slots_of(sample), n / slots_of(sample)}, o.ints);
    case Fill::recurrent:
      return normal_values({recurrent_rows(o), Fill::normal, o.scale, {}}, random);
    default:
      break;
  }
  std::vector<float> values(static_cast<std::size_t>(o.shape.elements().evaluate({})), 1.0f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (o.fill == Fill::range)
      values[i] = static_cast<float>(std::floor(random.uniform() * double{o.scale}));
    if (o.fill == Fill::frequencies)
      values[i] = static_cast<float>(
          std::pow(double{o.scale}, -static_cast<double>(i) / static_cast<double>(values.size())));
  }
  return encoded(o.shape, values);
}

std::string operand_name(const OpDef& def, std::size_t i) {
  return i < def.operands.size() ? std::string(def.operands[i]) : fmt::format("operand{}", i);
}

}  // namespace

std::vector<Tensor> materialize(const Sample& sample, std::uint64_t seed) {
  std::vector<Tensor> values;
  for (const SampleOperand& o : sample.operands) {
    SampleRandom random(seed * 1000003 + values.size());
    values.push_back(value_of(sample, o, random));
  }
  return values;
}

Graph sample_graph(const OpDef& def, const Sample& sample) {
  Graph graph(sample.name);
  Builder b(graph);
  std::vector<Value> operands;
  for (const SampleOperand& o : sample.operands) {
    const std::string source = operand_name(def, operands.size());
    operands.push_back(o.shape.is_state() ? b.state(source, o.shape) : b.input(source, o.shape));
  }
  const Value v = graph.add(def, sample.op, operands);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < graph.node(v).results.size(); ++i)
    outputs.push_back({fmt::format("y{}", i), b.result(v, static_cast<int>(i))});
  graph.set_outputs(std::move(outputs));
  return graph;
}

SampleOracle::SampleOracle(const OpDef& def, const Sample& sample, std::span<const Tensor> values) : state_(1, 1) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (sample.operands[i].fill == Fill::pages) {
      state_ = InterpreterState(values[i].dims()[0], values[i].dims()[1]);
      state_.set_page_table(values[i].as<std::int32_t>());
    } else if (sample.operands[i].fill == Fill::recurrent) {
      state_ = InterpreterState(values[i].dims()[0], 1);
    }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const SampleOperand& o = sample.operands[i];
    if (o.fill == Fill::kv) {
      cache_ = operand_name(def, i);
      state_.import_cache(cache_, o.shape, o.ints, values[i]);
    } else if (o.fill == Fill::recurrent) {
      cache_ = operand_name(def, i);
      state_.import_recurrent(cache_, o.shape, values[i]);
    } else if (o.fill != Fill::pages) {
      inputs_.push_back({operand_name(def, i), values[i]});
    }
  }
  Graph graph = sample_graph(def, sample);
  for (const Output& o : graph.outputs()) kinds_.push_back(graph.shape(o.value).kind);
  interpreter_.emplace(std::move(graph));
}

void SampleOracle::run() { outputs_ = interpreter_->run(inputs_, state_); }

std::vector<Tensor> SampleOracle::results() const {
  std::vector<Tensor> list;
  std::size_t next = 0;
  for (const ShapeKind kind : kinds_)
    list.push_back(kind == ShapeKind::kv          ? state_.export_cache(cache_)
                   : kind == ShapeKind::recurrent ? state_.export_recurrent(cache_)
                                                  : outputs_[next++].tensor);
  return list;
}

std::vector<Tensor> run_sample(const OpDef& def, const Sample& sample, std::span<const Tensor> values) {
  SampleOracle oracle(def, sample, values);
  oracle.run();
  return oracle.results();
}

}  // namespace rlx
