#include "runtime/weight_store.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "device/view.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

constexpr std::int64_t kWeightAlign = 64;

// The stored [k, n] matrix as [n, k]; block formats group values along a row and have no transposed
// form.
std::vector<std::byte> transposed(const WeightRef& w, const std::string& param) {
  const DTypeInfo& t = info(w.dtype);
  if (w.shape.size() != 2 || t.block_elements != 1)
    fail(ErrorCode::unsupported, "weight \"{}\": a {} tensor of rank {} cannot be transposed",
         param, t.name, w.shape.size());
  const std::int64_t rows = w.shape[0], columns = w.shape[1], size = t.block_bytes;
  std::vector<std::byte> out(w.data.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::copy_n(w.data.data() + (r * columns + c) * size, size,
                  out.data() + (c * rows + r) * size);
  return out;
}

// A plain entry of another dtype: decoded and encoded a row at a time.
void convert_rows(const WeightRef& from, const WeightEntry& e, std::byte* out) {
  const std::int64_t k = e.shape.dim(-1).evaluate({});
  const std::int64_t rows = e.shape.elements().evaluate({}) / std::max<std::int64_t>(k, 1);
  const EncodeRow encode = encoder(e.dtype);
  RLX_CHECK(encode != nullptr, std::string(name(e.dtype)));
  std::vector<float> row(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < rows; ++r) {
    decoder(from.dtype)(from.data.data() + r * row_bytes(from.dtype, k), row.data(), k);
    encode(row.data(), out + r * row_bytes(e.dtype, k), k);
  }
}

}  // namespace

std::int64_t entry_bytes(const WeightEntry& e, const Backend& backend) {
  if (e.layout == Layout::plain) return view_bytes(e.shape.with(e.dtype), {});
  return backend.packed_bytes(e.dtype, e.shape.dim(0).evaluate({}), e.shape.dim(1).evaluate({}));
}

bool entry_is_stored(const WeightEntry& e, bool turned) {
  return e.layout == Layout::plain && e.dtype == e.shape.dtype && e.transposed == turned;
}

void fill_entry(const WeightEntry& e, const WeightRef& stored, bool turned, const Backend& backend,
                Workers& workers, std::byte* out) {
  WeightRef w = stored;
  if (w.file != nullptr) {
    w.file->check_not_cut();
    w.file->will_need(w.data);
  }
  const std::span<const std::byte> pages = w.data;
  std::vector<std::byte> exchanged;
  if (e.transposed != turned) {
    exchanged = transposed(w, e.param);
    w.data = exchanged;
  }
  if (e.layout == Layout::plain) {
    convert_rows(w, e, out);
  } else {
    const Backend::PackJob job{w.data.data(), w.dtype, e.dtype, e.shape.dim(0).evaluate({}),
                               e.shape.dim(1).evaluate({}), out};
    const std::int64_t panels = ceil_div(job.n, 16), threads = workers.threads();
    workers.run([&](int t) noexcept { backend.pack(job, panels * t / threads, panels * (t + 1) / threads); });
  }
  // The packed copy is what steps read; the file's pages would only fill the resident set.
  if (w.file != nullptr) w.file->drop(pages);
}

WeightStore::WeightStore(std::shared_ptr<const WeightSource> source,
                         const std::vector<ModelParam>& params)
    : source_(std::move(source)) {
  for (const ModelParam& p : params) params_.emplace(p.name, p);
}

WeightStore::Key WeightStore::key_of(const WeightEntry& e) { return {e.param, e.dtype, e.layout, e.transposed}; }

bool WeightStore::as_stored(const WeightEntry& e) const {
  return entry_is_stored(e, params_.at(e.param).transposed);
}

const WeightRef& WeightStore::stored(const WeightEntry& entry) const {
  const auto it = params_.find(entry.param);
  RLX_CHECK(it != params_.end(), entry.param);
  const WeightRef& w = it->second.weight;
  if (view_bytes(entry.shape, {}) != static_cast<std::int64_t>(w.data.size()))
    fail(ErrorCode::shape, "weight \"{}\": expected {} = {} bytes, found {}", entry.param,
         entry.shape.text(), view_bytes(entry.shape, {}), w.data.size());
  return w;
}

std::vector<WeightStore::Missing> WeightStore::missing(const Program& program,
                                                       const Backend& backend) const {
  std::vector<Missing> list;
  for (const WeightEntry& e : program.weights) {
    if (as_stored(e) || entries_.contains(key_of(e))) continue;
    const bool twice = std::any_of(list.begin(), list.end(), [&](const Missing& m) {
      return key_of(*m.entry) == key_of(e);
    });
    if (!twice) list.push_back({&e, entry_bytes(e, backend), nullptr});
  }
  return list;
}

std::int64_t WeightStore::needed_bytes(const Program& program, const Backend& backend) const {
  std::int64_t sum = 0;
  for (const Missing& m : missing(program, backend))
    sum = require(checked_add(sum, round_up(m.bytes, kWeightAlign)), "weights");
  return sum;
}

void WeightStore::fill(const Program& program, const std::vector<Missing>& list, const Backend& backend,
                       Workers& workers) {
  const auto pack = [this, &backend](const WeightEntry& e, std::byte* out, Workers& on) {
    fill_entry(e, stored(e), params_.at(e.param).transposed, backend, on, out);
    ++packed_tensors_;
  };
  std::vector<PackedWeights::Item> kept;
  std::set<Key> seen;
  for (const WeightEntry& e : program.weights) {
    if (as_stored(e) || !seen.insert(key_of(e)).second) continue;
    const auto wanted =
        std::find_if(list.begin(), list.end(), [&](const Missing& m) { return key_of(*m.entry) == key_of(e); });
    // What a flow made itself is no part of the checkpoint that kept entries are found by.
    if (packed_ == nullptr || params_.at(e.param).owned != nullptr) {
      if (wanted != list.end()) pack(e, wanted->out, workers);
    } else if (wanted != list.end()) {
      kept.push_back({e, wanted->out, wanted->bytes, true});
    } else {
      kept.push_back({e, const_cast<std::byte*>(entries_.at(key_of(e))), entry_bytes(e, backend), false});
    }
  }
  if (!kept.empty())
    packed_->fill(std::move(kept), [pack](const PackedWeights::Item& i, Workers& on) { pack(i.entry, i.bytes, on); },
                  workers, gate_);
}

std::vector<const std::byte*> WeightStore::bind(const Program& program, const Backend& backend,
                                                Workers& workers) {
  std::vector<Missing> list = missing(program, backend);
  if (!list.empty()) {
    Arena arena(needed_bytes(program, backend), "weights");
    std::int64_t at = 0;
    for (Missing& m : list) {
      m.out = arena.data() + at;
      at += round_up(m.bytes, kWeightAlign);
    }
    // Kept before it is filled: a thread may still write it when something else fails.
    arenas_.push_back(std::move(arena));
    fill(program, list, backend, workers);
    for (const Missing& m : list) entries_.emplace(key_of(*m.entry), m.out);
    bytes_ += at;
  }
  std::vector<const std::byte*> out;
  for (const WeightEntry& e : program.weights)
    out.push_back(as_stored(e) ? stored(e).data.data()
                               : entries_.at(key_of(e)));
  return out;
}

}  // namespace rlx
