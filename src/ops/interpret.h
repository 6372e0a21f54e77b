// The oracle: runs a graph node by node with the references of its ops. Slow, in double inside each
// op; every result is rounded to its dtype. Layouts are ignored: all bytes are plain.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/kernel_args.h"
#include "tensor/tensor.h"

namespace rlx {

/// KV caches in plain pages, the page table that they share, and recurrent states. Persists between
/// runs.
class InterpreterState {
 public:
  /// `slots` sequences of at most `pages_per_slot` * 64 tokens; slot s owns the pages s *
  /// pages_per_slot + i. Errors: invalid_argument (a count below 1), limit.
  InterpreterState(std::int64_t slots, std::int64_t pages_per_slot);
  /// Another arrangement: i32[slots, pages_per_slot] with page ids in [0, slots * pages_per_slot),
  /// -1 where a slot has no page. Error(invalid_argument) for another count or id.
  void set_page_table(std::span<const std::int32_t> table);

  const Tensor& page_table() const { return table_; }
  std::int64_t slots() const { return table_.dims()[0]; }
  std::int64_t tokens_per_slot() const { return table_.dims()[1] * kPageTokens; }

  /// The cache of a state, made of zeros when it is first asked for. Error(shape) when it exists
  /// with another shape.
  KvPool& pool(std::string_view name, const Shape& shape);
  /// Fills slot after slot with its first tokens[slot] tokens, encoded in the cache's dtype.
  /// content: f32[2, sum of tokens, kv_heads, head_dim], keys before values. Error(shape) when the
  /// sizes disagree.
  void import_cache(std::string_view name, const Shape& shape, std::span<const std::int32_t> tokens,
                    const Tensor& content);
  /// The whole cache decoded: f32[2, slots, tokens_per_slot, kv_heads, head_dim], keys before
  /// values, zeros where no page is.
  Tensor export_cache(std::string_view name) const;

  /// The rows of a recurrent state, f32[slots, dims of one slot], made of zeros when it is first
  /// asked for. Error(shape) when it exists with another shape.
  Tensor& recurrent(std::string_view name, const Shape& shape);
  /// Copies rows of the same size into a recurrent state. Error(shape) when the sizes disagree.
  void import_recurrent(std::string_view name, const Shape& shape, const Tensor& rows);
  /// A copy of the rows. Error(invalid_argument): no recurrent state of that name.
  Tensor export_recurrent(std::string_view name) const;

 private:
  struct Cache {
    Shape shape;
    Tensor keys, values;  // [pages, kv_heads, 64, head_dim]
    KvPool pool;
  };
  Cache& cache(std::string_view name, const Shape& shape);
  /// Where the vector of a token lies in `keys` or `values`; -1 where the slot has no page.
  std::int64_t token_offset(const Cache& cache, std::int64_t slot, std::int64_t token,
                            std::int64_t head) const;

  Tensor table_;
  std::map<std::string, Cache, std::less<>> caches_;
  std::map<std::string, Tensor, std::less<>> recurrent_;
};

/// rounded: every result has the dtype that its op infers. f64: all values of f32, f16 and bf16 are kept as f64 and
/// never rounded, outputs included; values of those dtypes and of f64 are taken for sources. Block formats, int8
/// groups, integers and caches stay as they are. For derivatives by differences.
enum class Arithmetic : std::uint8_t { rounded, f64 };

class Interpreter {
 public:
  /// `graph` is HIR or MIR with bound sizes (Error(shape) when a symbol is left). `params` are used
  /// by every run.
  explicit Interpreter(Graph graph, std::vector<NamedTensor> params = {},
                       Arithmetic arithmetic = Arithmetic::rounded);
  ~Interpreter();
  Interpreter(Interpreter&&) noexcept;
  Interpreter& operator=(Interpreter&&) noexcept;

  /// The outputs, in the graph's order. `values` names every input, and every param that the
  /// constructor did not get. Errors: invalid_argument (a name missing, unknown or given twice; an
  /// index, page or length outside its range), shape (a value of another shape or dtype than its
  /// source).
  std::vector<NamedTensor> run(std::span<const NamedTensor> values, InterpreterState& state);
  /// For graphs without states.
  std::vector<NamedTensor> run(std::span<const NamedTensor> values);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
