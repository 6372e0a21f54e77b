// Which size of the work: a phase and the sizes of its symbols (compiler.md, section 2).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/key_writer.h"
#include "tensor/dim.h"

namespace rlx {

/// What a forward pass is for. Prefill and Decode want one row of logits per sequence, Encoder and
/// Inference want the result of every row.
enum class ModelPhase : std::uint8_t { Prefill, Decode, Encoder, Inference };

std::string_view name(ModelPhase phase);  ///< "prefill", "decode", "encoder", "inference"

using SymbolSize = std::pair<Symbol, std::int64_t>;

/// One size of the work. Two variants are equal, and have equal keys, exactly when their phases and
/// bindings are equal: neither the order of extras nor a value that a later one replaced matters.
///
/// Errors (invalid_argument), when it is made: a batch below 1, a negative size, a decode variant
/// without past_seq, past_seq in another phase, batch * seq beyond 64 bits.
class ModelVariant {
 public:
  /// `batch` sequences of `seq` new tokens.
  static ModelVariant prefill(std::int64_t batch, std::int64_t seq);
  /// `new_tokens` per sequence behind a cached prefix of `past_seq`.
  static ModelVariant decode(std::int64_t batch, std::int64_t past_seq, std::int64_t new_tokens);
  static ModelVariant encoder(std::int64_t batch, std::int64_t seq);
  static ModelVariant inference(std::int64_t batch, std::int64_t seq);
  /// Any phase, e.g. one that was read from a file. `past_seq` is given for Decode and only there:
  /// a prefill that continues a prefix in the functional form binds it by with_extra.
  static ModelVariant make(ModelPhase phase, std::int64_t batch, std::int64_t seq,
                           std::optional<std::int64_t> past_seq = std::nullopt);

  /// A size of its own for a symbol. It overrides the symbol's other value and no other symbol's:
  /// to set rows and what follows from it apart, use with_rows.
  [[nodiscard]] ModelVariant with_extra(Symbol symbol, std::int64_t size) const;
  /// New tokens over all sequences when they are not batch * seq: a mixed batch.
  [[nodiscard]] ModelVariant with_rows(std::int64_t rows) const;
  /// The same work with the result of every row wanted (out_rows = rows), as checking logits needs.
  [[nodiscard]] ModelVariant verify() const;

  ModelPhase phase() const { return phase_; }
  std::int64_t batch() const { return batch_; }
  std::int64_t seq() const { return seq_; }  ///< the new tokens of a decode
  std::optional<std::int64_t> past_seq() const { return past_seq_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t out_rows() const;
  const DimBinding& extras() const { return extras_; }

  /// batch, seq, rows, out_rows, in Decode past_seq, and the extras, which win.
  DimBinding dim_binding() const;
  /// The same as a list in the order of names, for keys: made without looking symbols up.
  std::vector<SymbolSize> sizes() const;
  Digest cache_key() const;
  void write_key(KeyWriter& key) const;  ///< the fields of cache_key
  std::string text() const;              ///< "decode(batch=1,out_rows=1,past_seq=64,rows=1,seq=1)"

  friend bool operator==(const ModelVariant& a, const ModelVariant& b) {
    return a.phase_ == b.phase_ && a.sizes() == b.sizes();
  }

 private:
  ModelVariant() = default;

  ModelPhase phase_ = ModelPhase::Inference;
  bool every_row_ = false;  ///< out_rows = rows
  std::int64_t batch_ = 1, seq_ = 0, rows_ = 0;
  std::optional<std::int64_t> past_seq_;
  DimBinding extras_;
};

/// Writes a binding, given in the order of names.
void write_key(KeyWriter& key, std::string_view field, std::span<const SymbolSize> binding);

}  // namespace rlx
