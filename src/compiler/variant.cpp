#include "compiler/variant.h"

#include <algorithm>
#include <array>

#include "base/checked.h"
#include "base/error.h"

namespace rlx {
namespace {

void check_size(ModelPhase phase, std::string_view what, std::int64_t least, std::int64_t size) {
  if (size < least)
    fail(ErrorCode::invalid_argument, "{} variant: expected {} of at least {}, found {}",
         name(phase), what, least, size);
}

// Names of the well-known symbols without the lock of Symbol::name, which threads that ask for keys
// would wait for.
std::string_view quick_name(Symbol symbol) {
  static const std::array<std::string_view, 5> known = {sym::batch.name(), sym::seq.name(),
                                                        sym::rows.name(), sym::out_rows.name(),
                                                        sym::past_seq.name()};
  return symbol.id() < known.size() ? known[symbol.id()] : symbol.name();
}

}  // namespace

std::string_view name(ModelPhase phase) {
  constexpr std::string_view names[] = {"prefill", "decode", "encoder", "inference"};
  return names[static_cast<std::size_t>(phase)];
}

ModelVariant ModelVariant::make(ModelPhase phase, std::int64_t batch, std::int64_t seq,
                                std::optional<std::int64_t> past_seq) {
  check_size(phase, "a batch", 1, batch);
  check_size(phase, "a seq", 0, seq);
  if (phase == ModelPhase::Decode) {
    if (!past_seq)
      fail(ErrorCode::invalid_argument,
           "decode variant: expected past_seq, the length of the cached prefix, found none");
    check_size(phase, "a past_seq", 0, *past_seq);
  } else if (past_seq) {
    fail(ErrorCode::invalid_argument,
         "{} variant: expected no past_seq, which belongs to decode, found {}", name(phase),
         *past_seq);
  }
  const std::optional<std::int64_t> rows = checked_mul(batch, seq);
  if (!rows)
    fail(ErrorCode::invalid_argument,
         "{} variant: expected batch * seq to fit in 64 bits, found {} * {}", name(phase), batch,
         seq);
  ModelVariant v;
  v.phase_ = phase;
  v.every_row_ = phase == ModelPhase::Encoder || phase == ModelPhase::Inference;
  v.batch_ = batch;
  v.seq_ = seq;
  v.rows_ = *rows;
  v.past_seq_ = past_seq;
  return v;
}

ModelVariant ModelVariant::prefill(std::int64_t batch, std::int64_t seq) {
  return make(ModelPhase::Prefill, batch, seq);
}

ModelVariant ModelVariant::decode(std::int64_t batch, std::int64_t past_seq,
                                  std::int64_t new_tokens) {
  return make(ModelPhase::Decode, batch, new_tokens, past_seq);
}

ModelVariant ModelVariant::encoder(std::int64_t batch, std::int64_t seq) {
  return make(ModelPhase::Encoder, batch, seq);
}

ModelVariant ModelVariant::inference(std::int64_t batch, std::int64_t seq) {
  return make(ModelPhase::Inference, batch, seq);
}

ModelVariant ModelVariant::with_extra(Symbol symbol, std::int64_t size) const {
  check_size(phase_, fmt::format("a size of \"{}\"", symbol.name()), symbol == sym::batch ? 1 : 0,
             size);
  ModelVariant v = *this;
  v.extras_.set(symbol, size);
  return v;
}

ModelVariant ModelVariant::with_rows(std::int64_t rows) const {
  check_size(phase_, "rows", 0, rows);
  ModelVariant v = *this;
  v.rows_ = rows;
  return v;
}

ModelVariant ModelVariant::verify() const {
  ModelVariant v = *this;
  v.every_row_ = true;
  return v;
}

std::int64_t ModelVariant::out_rows() const { return every_row_ ? rows_ : batch_; }

std::vector<SymbolSize> ModelVariant::sizes() const {
  std::vector<SymbolSize> sizes;
  sizes.reserve(5 + extras_.sizes().size());
  sizes.emplace_back(sym::batch, batch_);
  sizes.emplace_back(sym::out_rows, out_rows());
  if (past_seq_) sizes.emplace_back(sym::past_seq, *past_seq_);
  sizes.emplace_back(sym::rows, rows_);
  sizes.emplace_back(sym::seq, seq_);
  for (const auto& [symbol, size] : extras_.sizes()) {
    const auto it = std::lower_bound(sizes.begin(), sizes.end(), symbol,
                                     [](const SymbolSize& s, Symbol of) { return s.first < of; });
    if (it != sizes.end() && it->first == symbol)
      it->second = size;
    else
      sizes.insert(it, {symbol, size});
  }
  return sizes;
}

DimBinding ModelVariant::dim_binding() const {
  DimBinding binding;
  for (const auto& [symbol, size] : sizes()) binding.set(symbol, size);
  return binding;
}

void write_key(KeyWriter& key, std::string_view field, std::span<const SymbolSize> binding) {
  key.list(field, binding.size());
  for (const auto& [symbol, size] : binding) key.integer(quick_name(symbol), size);
}

void ModelVariant::write_key(KeyWriter& key) const {
  key.text("phase", name(phase_));
  rlx::write_key(key, "binding", sizes());
}

Digest ModelVariant::cache_key() const {
  KeyWriter key("variant");
  write_key(key);
  return key.finish();
}

std::string ModelVariant::text() const {
  return fmt::format("{}({})", name(phase_), dim_binding().text());
}

}  // namespace rlx
