// The batch descriptor and the paged cache, as the references of the attention ops read them
// (architecture.md, section 3).
#pragma once

#include <cstdint>
#include <vector>

#include "ir/infer.h"
#include "ir/kernel_args.h"

namespace rlx::paged {

struct KvDims {
  std::int64_t heads, head_dim;
};

/// Operand i is the cache of a layer in a dtype that caches are kept in (f32, f16, bf16, q8_0).
KvDims infer_cache(InferContext& c, int i);
/// Operands first .. first + 3 are seq_start, past, slot and pages, with one batch size.
void infer_sequences(InferContext& c, int first);

/// The sequences of a step. Everything that a step reads from them is checked when it is made:
/// Error(invalid_argument) for a start that is not in order, a slot or a page outside the cache, a
/// sequence that is longer than its pages.
class Sequences {
 public:
  /// Operands first .. first + 3 of `a` are seq_start, past, slot and pages.
  Sequences(const KernelArgs& a, int first, const TensorView& cache, std::int64_t rows);

  std::int64_t count() const { return static_cast<std::int64_t>(seqs_.size()); }
  std::int64_t begin(std::int64_t b) const { return at(b).begin; }  ///< first row of sequence b
  std::int64_t end(std::int64_t b) const { return at(b).end; }
  /// The token of the cache that row r of sequence b is.
  std::int64_t position(std::int64_t b, std::int64_t r) const {
    return at(b).past + r - at(b).begin;
  }
  /// Where the keys (or values) of a token start.
  std::byte* token(std::int64_t b, std::int64_t token, std::int64_t head, bool keys) const;
  /// Keys (or values) of all tokens of a sequence, this step's included: [tokens, head_dim].
  std::vector<double> load_head(std::int64_t b, std::int64_t head, bool keys) const;

 private:
  struct Sequence {
    std::int64_t begin, end, past;
    std::vector<std::int64_t> pages;
  };
  const Sequence& at(std::int64_t b) const { return seqs_[static_cast<std::size_t>(b)]; }

  const TensorView* cache_;
  std::int64_t row_bytes_;
  std::vector<Sequence> seqs_;
};

}  // namespace rlx::paged
