// What blocks emit through: the graph under construction, its params by reference, and the place in
// the model for messages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flow/built_model.h"

namespace rlx {

/// A stack of matrices [count, out, in]: the weights of experts.
struct StackShape {
  std::int64_t count = 0, out = 0, in = 0;
};
/// Where a matrix of a stack is stored: rows first .. first + out - 1 of matrix `matrix` of the tensor
/// `key`, whose shape is [matrices, rows, in], or [rows, in] with matrices = 0.
struct MatrixPart {
  std::string key;
  std::int64_t matrices = 0, rows = 0;
  std::int64_t matrix = 0, first = 0;
};

class FlowCtx {
 public:
  FlowCtx(std::string graph_name, const WeightSource& weights);

  /// The builder; nodes carry the stage that emits them ("layers.3.self_attention").
  Builder& hir() { return builder_; }
  const Shape& node_shape(Value v) const { return graph_.shape(v); }
  /// The value itself, when it has this shape; Error(shape) that names the stage and both shapes. For
  /// custom stages that take over a value from another.
  Value wrap(Value v, const Shape& shape) const;
  const WeightSource& weights() const { return *weights_; }

  /// The stage that runs now, for messages.
  const std::string& stage() const { return builder_.origin(); }
  void set_stage(std::string name) { builder_.set_origin(std::move(name)); }

  /// A stored tensor as a param, of any shape and dtype; the data is referenced. A tensor is
  /// declared once per (key, transpose) under the names "key" and "key.T". Errors: format (no such
  /// tensor), unsupported (a transposed tensor that is no matrix, or of a block format, whose
  /// blocks run along the stored rows).
  Value load_param(std::string_view key, bool transpose = false);
  /// The same for a tensor whose shape the model knows. A missing tensor or another shape is
  /// collected and reported by finish(), so that one message lists all; until then a param of the
  /// expected shape stands for it.
  Value load_matrix(std::string_view key, std::int64_t out, std::int64_t in,
                    bool transpose = false);
  /// A stored tensor [count, out, in], one matrix for each expert; otherwise as load_matrix.
  Value load_stack(std::string_view key, const StackShape& shape);
  /// Matrices of one dtype that lie in several places of the checkpoint, as the param `name` [count,
  /// out, in]. They are joined where they lie: the weight store reads them from there. The first part
  /// that is missing or has another shape is collected like a matrix of load_matrix; those behind it are
  /// not asked for, since `count` is only a number that the file claims.
  using PartOf = std::function<MatrixPart(std::int64_t)>;  ///< of 0 .. count - 1
  Value load_stack(std::string_view name, const PartOf& part, const StackShape& shape);
  /// A tensor whose stored shape the model knows, read under other dims of the same count: a convolution kernel
  /// [n, c, h, w] as the matrix [n, c * h * w]. Missing and wrong ones as load_matrix.
  Value load_as(std::string_view key, const std::vector<std::int64_t>& stored, const std::vector<std::int64_t>& as);
  /// The same as f32, widened here, once, where it is stored in another float dtype: tables of positions and biases
  /// that element-wise ops read.
  Value load_table(std::string_view key, const std::vector<std::int64_t>& stored,
                   const std::vector<std::int64_t>& as);
  /// A vector as f32[n]. What is stored in another plain float dtype, or misaligned, is widened
  /// here, once: norms and biases are a few KiB, and a cast in the graph would run at each step.
  Value load_vector(std::string_view key, std::int64_t n);
  /// Rows first .. first + count - 1 of a stored matrix [out, in] as a param "key[first:end]", for
  /// products that a checkpoint keeps in one matrix. The data is referenced.
  struct RowRange {
    std::int64_t first = 0, count = 0;
  };
  Value load_rows(std::string_view key, std::int64_t out, std::int64_t in, RowRange rows);
  /// The values of a stored tensor in row-major order, for params that a stage computes. Dims of 1
  /// do not count. Empty, and reported by finish(), when the tensor is missing or has other dims.
  std::vector<float> read_values(std::string_view key, std::vector<std::int64_t> dims);
  /// The values of a stored vector, for tables that a stage computes; counts as used. Empty, and
  /// reported by finish(), when wrong.
  std::vector<float> read_vector(std::string_view key, std::int64_t n);

  /// A param that the flow makes; the data goes with the model. No data: what read_values() could not
  /// read; a param without bytes stands for it until finish() reports that. Error(invalid_argument): a
  /// second param of that name.
  Value synth_param(std::string_view name, std::vector<float> data, const Shape& shape);
  Value synth_zeros(std::string_view name, std::int64_t n);
  /// A per-step input or a state of the graph. Error(invalid_argument): a second one of that name.
  Value input(std::string_view name, const Shape& shape);
  Value state(std::string_view name, const Shape& shape);

  /// Ends the flow: Error(shape) that lists up to ten missing or wrong tensors with expected and
  /// found shapes; else the model (without `weights`, which the caller owns).
  BuiltModel finish(std::vector<Output> outputs);

 private:
  using Dims = std::vector<std::int64_t>;
  struct Declared {
    Value value;
    Dims shape;
  };

  const WeightRef* lookup(std::string_view key, const Dims& expected);
  /// The param of (key, transpose) that an earlier stage declared, else none; Error(shape) when it read other dims.
  Value known_param(std::string_view key, bool transpose, const Dims& dims) const;
  std::optional<WeightRef> part_of(const MatrixPart& part, const StackShape& shape);
  const WeightRef& existing(std::string_view key);
  Value declare(std::string_view key, bool transpose, const WeightRef& weight);
  Value load_viewed(std::string_view key, const Dims& stored, const Dims& as, bool widen);
  void report(std::string_view key, const Dims& expected, std::string found);
  [[noreturn]] void fail_collected() const;

  Graph graph_;
  Builder builder_;
  const WeightSource* weights_;
  std::vector<ModelParam> params_;
  std::map<std::pair<std::string, bool>, Declared, std::less<>> declared_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> issues_;
};

}  // namespace rlx
