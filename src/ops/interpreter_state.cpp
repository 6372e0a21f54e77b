#include <cstring>

#include "base/checked.h"
#include "ops/interpret.h"
#include "tensor/quant/codec.h"

namespace rlx {

InterpreterState::InterpreterState(std::int64_t slots, std::int64_t pages_per_slot) {
  if (slots < 1 || pages_per_slot < 1)
    fail(ErrorCode::invalid_argument,
         "interpreter: expected at least one slot and page, found {} and {}", slots,
         pages_per_slot);
  table_ = Tensor::zeros({slots, pages_per_slot}, DType::i32);
  auto pages = table_.mutable_as<std::int32_t>();
  for (std::size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::int32_t>(i);
}

void InterpreterState::set_page_table(std::span<const std::int32_t> table) {
  auto pages = table_.mutable_as<std::int32_t>();
  if (table.size() != pages.size())
    fail(ErrorCode::invalid_argument, "page table: expected {} pages, found {}", pages.size(),
         table.size());
  for (std::int32_t page : table)
    if (page < -1 || page >= static_cast<std::int64_t>(pages.size()))
      fail(ErrorCode::invalid_argument, "page table: expected ids from -1 to {}, found {}",
           pages.size() - 1, page);
  std::copy(table.begin(), table.end(), pages.begin());
}

InterpreterState::Cache& InterpreterState::cache(std::string_view name, const Shape& given) {
  RLX_CHECK(given.kind == ShapeKind::kv, given.text());
  const Shape shape = given.with(Layout::plain);
  auto at = caches_.find(name);
  if (at != caches_.end()) {
    if (!(at->second.shape == shape))
      fail(ErrorCode::shape, "state \"{}\": expected {}, found {}", name, at->second.shape.text(),
           shape.text());
    return at->second;
  }
  const std::int64_t pages = table_.elements(), heads = shape.dim(0).evaluate({}),
                     d = shape.dim(1).evaluate({});
  Cache c{shape,
          Tensor::zeros({pages, heads, kPageTokens, d}, shape.dtype),
          Tensor::zeros({pages, heads, kPageTokens, d}, shape.dtype),
          {}};
  const std::int64_t head_bytes = kPageTokens * row_bytes(shape.dtype, d),
                     page_bytes = heads * head_bytes;
  c.pool = {c.keys.mutable_data(),
            c.values.mutable_data(),
            page_bytes,
            head_bytes,
            page_bytes,
            head_bytes,
            pages};
  return caches_.emplace(std::string(name), std::move(c)).first->second;
}

KvPool& InterpreterState::pool(std::string_view name, const Shape& shape) {
  return cache(name, shape).pool;
}

std::int64_t InterpreterState::token_offset(const Cache& c, std::int64_t slot, std::int64_t token,
                                            std::int64_t head) const {
  const auto entry = static_cast<std::size_t>(slot * table_.dims()[1] + token / kPageTokens);
  const std::int64_t page = table_.as<std::int32_t>()[entry];
  if (page < 0) return -1;
  const std::int64_t row = row_bytes(c.shape.dtype, c.keys.dims()[3]);
  return page * c.pool.k_page + head * c.pool.k_head + token % kPageTokens * row;
}

void InterpreterState::import_cache(std::string_view name, const Shape& shape,
                                    std::span<const std::int32_t> tokens, const Tensor& content) {
  Cache& c = cache(name, shape);
  const std::int64_t heads = c.keys.dims()[1], d = c.keys.dims()[3];
  std::int64_t total = 0;
  for (std::int32_t n : tokens) {
    if (n < 0 || n > tokens_per_slot())
      fail(ErrorCode::shape, "state \"{}\": expected at most {} tokens in a slot, found {}", name,
           tokens_per_slot(), n);
    total += n;
  }
  const Shape expected({2, total, heads, d}, DType::f32);
  if (static_cast<std::int64_t>(tokens.size()) != slots() || !(content.shape() == expected))
    fail(ErrorCode::shape, "state \"{}\": expected {} slots and {}, found {} and {}", name, slots(),
         expected.text(), tokens.size(), content.text());
  const EncodeRow encode = encoder(shape.dtype);
  const float* from = content.as<float>().data();
  for (Tensor* part : {&c.keys, &c.values})
    for (std::int64_t slot = 0; slot < slots(); ++slot)
      for (std::int64_t t = 0; t < tokens[static_cast<std::size_t>(slot)]; ++t)
        for (std::int64_t h = 0; h < heads; ++h, from += d) {
          const std::int64_t to = token_offset(c, slot, t, h);
          if (to < 0)
            fail(ErrorCode::invalid_argument, "state \"{}\": slot {} has no page for token {}",
                 name, slot, t);
          encode(from, part->mutable_data() + to, d);
        }
}

Tensor InterpreterState::export_cache(std::string_view name) const {
  const auto found = caches_.find(name);
  if (found == caches_.end()) fail(ErrorCode::invalid_argument, "no state is named \"{}\"", name);
  const Cache& c = found->second;
  const std::int64_t heads = c.keys.dims()[1], d = c.keys.dims()[3];
  Tensor content = Tensor::zeros({2, slots(), tokens_per_slot(), heads, d});
  float* to = content.mutable_as<float>().data();
  for (const Tensor* part : {&c.keys, &c.values})
    for (std::int64_t slot = 0; slot < slots(); ++slot)
      for (std::int64_t t = 0; t < tokens_per_slot(); ++t)
        for (std::int64_t h = 0; h < heads; ++h, to += d) {
          const std::int64_t from = token_offset(c, slot, t, h);
          if (from >= 0) decoder(c.shape.dtype)(part->data() + from, to, d);
        }
  return content;
}

Tensor& InterpreterState::recurrent(std::string_view name, const Shape& shape) {
  RLX_CHECK(shape.kind == ShapeKind::recurrent, shape.text());
  std::vector<std::int64_t> dims = {slots()};
  for (Dim d : shape.dims()) dims.push_back(d.evaluate({}));
  const auto at = recurrent_.find(name);
  if (at == recurrent_.end())
    return recurrent_.emplace(std::string(name), Tensor::zeros(std::move(dims))).first->second;
  if (at->second.dims() != dims)
    fail(ErrorCode::shape, "state \"{}\": expected {} of {} slots, found {}", name, shape.text(),
         slots(), at->second.text());
  return at->second;
}

void InterpreterState::import_recurrent(std::string_view name, const Shape& shape,
                                        const Tensor& rows) {
  Tensor& state = recurrent(name, shape);
  if (!(rows.shape() == state.shape()))
    fail(ErrorCode::shape, "state \"{}\": expected {}, found {}", name, state.text(), rows.text());
  std::memcpy(state.mutable_data(), rows.data(), static_cast<std::size_t>(rows.byte_size()));
}

Tensor InterpreterState::export_recurrent(std::string_view name) const {
  const auto found = recurrent_.find(name);
  if (found == recurrent_.end())
    fail(ErrorCode::invalid_argument, "no recurrent state is named \"{}\"", name);
  return Tensor::from(found->second.dims(), found->second.as<float>());
}

}  // namespace rlx
