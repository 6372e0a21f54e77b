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

// Rows of k values where they are stored: one tensor after the other.
class StoredRows {
 public:
  StoredRows(std::span<const WeightRef> parts, std::int64_t k) : parts_(parts), k_(k) {
    std::int64_t rows = 0;
    for (const WeightRef& w : parts) {
      first_.push_back(rows);
      if (k > 0) rows += static_cast<std::int64_t>(w.data.size()) / row_bytes(w.dtype, k);
    }
    first_.push_back(rows);
  }

  const std::byte* row(std::int64_t r) const {
    const std::size_t part = part_of(r);
    return parts_[part].data.data() + (r - first_[part]) * row_bytes(parts_[part].dtype, k_);
  }
  // Whether rows begin..end-1 lie one after the other.
  bool together(std::int64_t begin, std::int64_t end) const {
    return end <= begin || end <= first_[part_of(begin) + 1];
  }

 private:
  std::size_t part_of(std::int64_t r) const {
    return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end() - 1, r) - first_.begin()) - 1;
  }

  std::span<const WeightRef> parts_;
  std::int64_t k_;
  std::vector<std::int64_t> first_;  // of each part, and the number of rows
};

// A plain entry: decoded and encoded a row at a time, or copied.
void convert_rows(const StoredRows& from, DType stored, const WeightEntry& e, std::byte* out) {
  const std::int64_t k = e.shape.dim(-1).evaluate({});
  const std::int64_t rows = e.shape.elements().evaluate({}) / std::max<std::int64_t>(k, 1);
  const std::int64_t bytes = row_bytes(e.dtype, k);
  const EncodeRow encode = encoder(e.dtype);
  RLX_CHECK(encode != nullptr || stored == e.dtype, std::string(name(e.dtype)));
  std::vector<float> row(static_cast<std::size_t>(k));
  for (std::int64_t r = 0; r < rows; ++r) {
    if (stored == e.dtype) {
      std::copy_n(from.row(r), bytes, out + r * bytes);
      continue;
    }
    decoder(stored)(from.row(r), row.data(), k);
    encode(row.data(), out + r * bytes, k);
  }
}

// The matrices of an entry: one, or one for each expert.
struct Matrices {
  std::int64_t count = 1, n = 0, k = 0;
  explicit Matrices(const Shape& shape) : n(shape.dim(-2).evaluate({})), k(shape.dim(-1).evaluate({})) {
    if (shape.rank() == 3) count = shape.dim(0).evaluate({});
  }
};

// Each worker packs a run of the panels of all matrices.
void pack_entry(const WeightEntry& e, const StoredRows& rows, DType stored, const Backend& backend,
                Workers& workers, std::byte* out) {
  const Matrices m(e.shape);
  const std::int64_t bytes = backend.packed_bytes(e.dtype, m.n, m.k), panels = ceil_div(m.n, 16),
                     threads = workers.threads();
  std::vector<const std::byte*> first;  // of each matrix
  std::vector<std::vector<std::byte>> joined;
  for (std::int64_t i = 0; i < m.count; ++i) {
    if (rows.together(i * m.n, (i + 1) * m.n)) {
      first.push_back(m.n > 0 ? rows.row(i * m.n) : nullptr);
      continue;
    }
    // A panel of 16 rows may span two tensors.
    const std::int64_t size = row_bytes(stored, m.k);
    joined.emplace_back(static_cast<std::size_t>(m.n * size));
    for (std::int64_t r = 0; r < m.n; ++r)
      std::copy_n(rows.row(i * m.n + r), size, joined.back().data() + r * size);
    first.push_back(joined.back().data());
  }
  workers.run([&](int t) noexcept {
    const std::int64_t end = m.count * panels * (t + 1) / threads;
    for (std::int64_t at = m.count * panels * t / threads; at < end;) {
      const std::int64_t i = at / panels, from = at - i * panels,
                         to = std::min(panels, from + end - at);
      backend.pack({first[static_cast<std::size_t>(i)], stored, e.dtype, m.n, m.k, out + i * bytes}, from, to);
      at += to - from;
    }
  });
}

}  // namespace

std::int64_t entry_bytes(const WeightEntry& e, const Backend& backend) {
  if (e.layout == Layout::plain) return view_bytes(e.shape.with(e.dtype), {});
  const Matrices m(e.shape);
  return require(checked_mul(m.count, backend.packed_bytes(e.dtype, m.n, m.k)), "weights");
}

bool entry_is_stored(const WeightEntry& e, bool turned) {
  return e.layout == Layout::plain && e.dtype == e.shape.dtype && e.transposed == turned;
}

void fill_entry(const WeightEntry& e, std::span<const WeightRef> stored, bool turned,
                const Backend& backend, Workers& workers, std::byte* out) {
  std::vector<WeightRef> parts(stored.begin(), stored.end());
  for (const WeightRef& w : parts) {
    if (w.file == nullptr) continue;
    w.file->check_not_cut();
    w.file->will_need(w.data);
  }
  std::vector<std::byte> exchanged;
  if (e.transposed != turned) {
    if (parts.size() != 1)
      fail(ErrorCode::unsupported, "weight \"{}\": {} joined tensors cannot be transposed", e.param, parts.size());
    exchanged = transposed(parts[0], e.param);
    parts[0].data = exchanged;
  }
  const StoredRows rows(parts, e.shape.dim(-1).evaluate({}));
  if (e.layout == Layout::plain)
    convert_rows(rows, parts[0].dtype, e, out);
  else
    pack_entry(e, rows, parts[0].dtype, backend, workers, out);
  // The packed copy is what steps read; the file's pages would only fill the resident set.
  for (const WeightRef& w : stored)
    if (w.file != nullptr) w.file->drop(w.data);
}

WeightStore::WeightStore(std::shared_ptr<const WeightSource> source,
                         const std::vector<ModelParam>& params)
    : source_(std::move(source)) {
  for (const ModelParam& p : params) params_.emplace(p.name, p);
}

WeightStore::Key WeightStore::key_of(const WeightEntry& e) { return {e.param, e.dtype, e.layout, e.transposed}; }

bool WeightStore::as_stored(const WeightEntry& e) const {
  const ModelParam& p = params_.at(e.param);
  return p.parts.empty() && entry_is_stored(e, p.transposed);
}

const ModelParam& WeightStore::param_of(const WeightEntry& entry) const {
  const auto it = params_.find(entry.param);
  RLX_CHECK(it != params_.end(), entry.param);
  const std::int64_t expected = view_bytes(entry.shape, {}), found = it->second.stored_bytes();
  if (expected != found)
    fail(ErrorCode::shape, "weight \"{}\": expected {} = {} bytes, found {}", entry.param,
         entry.shape.text(), expected, found);
  return it->second;
}

std::vector<WeightStore::Missing> WeightStore::missing(const Program& program,
                                                       const Backend& backend) const {
  std::vector<Missing> list;
  std::set<Key> seen;
  for (const WeightEntry& e : program.weights) {
    if (as_stored(e)) continue;
    Key key = key_of(e);
    if (!entries_.contains(key) && seen.insert(std::move(key)).second)
      list.push_back({&e, entry_bytes(e, backend), nullptr});
  }
  return list;
}

std::int64_t WeightStore::needed_bytes(const Program& program, const Backend& backend) const {
  return padded_bytes(missing(program, backend));
}

std::int64_t WeightStore::padded_bytes(const std::vector<Missing>& list) {
  std::int64_t sum = 0;
  for (const Missing& m : list) sum = require(checked_add(sum, round_up(m.bytes, kWeightAlign)), "weights");
  return sum;
}

void WeightStore::fill(const Program& program, const std::vector<Missing>& list, const Backend& backend,
                       Workers& workers) {
  const auto pack = [this, &backend](const WeightEntry& e, std::byte* out, Workers& on) {
    const ModelParam& p = param_of(e);
    fill_entry(e, p.stored(), p.transposed, backend, on, out);
    ++packed_tensors_;
  };
  std::vector<PackedWeights::Item> kept;
  std::map<Key, const Missing*> missing_by_key;
  for (const Missing& m : list) missing_by_key.emplace(key_of(*m.entry), &m);
  std::set<Key> seen;
  for (const WeightEntry& e : program.weights) {
    if (as_stored(e) || !seen.insert(key_of(e)).second) continue;
    const auto found = missing_by_key.find(key_of(e));
    const Missing* wanted = found == missing_by_key.end() ? nullptr : found->second;
    // What a flow made itself is no part of the checkpoint that kept entries are found by.
    if (packed_ == nullptr || params_.at(e.param).owned != nullptr) {
      if (wanted != nullptr) pack(e, wanted->out, workers);
    } else if (wanted != nullptr) {
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
    Arena arena(padded_bytes(list), "weights");
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
    out.push_back(as_stored(e) ? param_of(e).weight.data.data()
                               : entries_.at(key_of(e)));
  return out;
}

}  // namespace rlx
