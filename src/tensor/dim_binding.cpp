// Sizes of symbols.
#include "base/checked.h"
#include "base/key_writer.h"
#include "tensor/dim.h"

namespace rlx {

DimBinding::DimBinding(std::initializer_list<std::pair<Symbol, std::int64_t>> sizes) {
  for (auto [s, n] : sizes) set(s, n);
}

DimBinding DimBinding::batch_seq(std::int64_t b, std::int64_t s) {
  DimBinding binding{{sym::batch, b}, {sym::seq, s}};
  const auto rows = checked_mul(b, s);
  if (!rows) fail(ErrorCode::shape, "batch {} times seq {} does not fit in 64 bits", b, s);
  return binding.set(sym::rows, *rows);
}

DimBinding DimBinding::batch_past_seq(std::int64_t b, std::int64_t p) {
  return {{sym::batch, b}, {sym::past_seq, p}};
}

DimBinding& DimBinding::set(Symbol s, std::int64_t size) {
  if (size < 0)
    fail(ErrorCode::shape, "symbol \"{}\": expected a size of at least 0, found {}", s.name(),
         size);
  sizes_.insert_or_assign(s, size);
  return *this;
}

std::optional<std::int64_t> DimBinding::get(Symbol s) const {
  // The order of symbols is that of their names: a few compares of ids are less than one of those.
  for (const auto& [symbol, size] : sizes_)
    if (symbol == s) return size;
  return std::nullopt;
}

std::string DimBinding::text() const {
  std::string text;
  for (auto [s, n] : sizes_) text += fmt::format("{}{}={}", text.empty() ? "" : ",", s.name(), n);
  return text;
}

Digest DimBinding::digest() const {
  KeyWriter key("binding");
  key.list("sizes", sizes_.size());
  for (auto [s, n] : sizes_) key.text("symbol", s.name()).integer("size", n);
  return key.finish();
}

}  // namespace rlx
