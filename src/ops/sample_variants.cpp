#include "ops/sample_variants.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "ops/materialize.h"
#include "ops/sample_random.h"

namespace rlx {
namespace {

using samples::Batch;

std::string_view name_of(const OpDef& def, std::size_t i) {
  return i < def.operands.size() ? def.operands[i] : std::string_view{};
}

// The place of seq_start, which past and slot follow, in a sample with a state. By its form: a state's op may leave out
// operands before it, so that the op's list of names does not say.
std::optional<std::size_t> sequences_at(const Sample& s) {
  const bool state =
      std::any_of(s.operands.begin(), s.operands.end(), [](const auto& o) { return o.shape.is_updated(); });
  for (std::size_t i = 0; state && i + 2 < s.operands.size(); ++i) {
    const SampleOperand &starts = s.operands[i], &past = s.operands[i + 1], &slot = s.operands[i + 2];
    if (starts.fill == Fill::given && past.fill == Fill::given && slot.fill == Fill::given &&
        starts.ints.size() == past.ints.size() + 1 && past.ints.size() == slot.ints.size())
      return i;
  }
  return std::nullopt;
}

// "seq_start", "q_start": where each sequence begins in the rows, and their end.
bool is_starts(const OpDef& def, const Sample& s, std::size_t i) {
  return s.operands[i].fill == Fill::given && name_of(def, i).ends_with("_start") && !s.operands[i].ints.empty();
}

std::int64_t size_at(const Shape& shape, int axis) { return *shape.dim(axis).constant(); }

std::optional<std::int64_t> followed(std::int64_t size, const SizeChange& c) {
  if (size == c.from) return c.to;
  if (c.follow == Follow::equal || c.from < 2) return size;
  if (size > c.from && size % c.from == 0) return size / c.from * c.to;
  if (c.follow != Follow::halves || c.from < 3) return size;
  if (c.from % 2 == 0 && size == c.from / 2)
    return c.to % 2 == 0 ? std::optional<std::int64_t>(c.to / 2) : std::nullopt;
  return size == c.from / 2 + 1 ? c.to / 2 + 1 : size;
}

// The whole of a text as an integer.
std::optional<std::int64_t> as_integer(std::string_view text) {
  std::int64_t v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}

std::vector<std::string> parts_of(std::string_view text, std::string_view between) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    parts.emplace_back(text.substr(at, end - at));
    at = end + between.size();
  }
  return parts;
}

bool is_size_attribute(const AttrField& f) {
  return f.type->bind_dims != nullptr || f.type->described() == "an integer";
}

// Integers and lists of sizes follow, the rest of the attributes stays.
bool change_attributes(const OpDef& def, AttrBlob& op, const SizeChange& c) {
  for (const AttrField& f : def.fields()) {
    if (!is_size_attribute(f)) continue;
    std::string text;
    for (const std::string& part : parts_of(f.type->print(op.data() + f.offset), ",")) {
      const std::optional<std::int64_t> old = as_integer(part);
      const std::optional<std::int64_t> now = old && *old > 0 ? followed(*old, c) : old;
      if (old && !now) return false;
      text += (text.empty() ? "" : ",") + (now ? std::to_string(*now) : part);
    }
    if (!f.type->parse(text, op.data() + f.offset)) return false;
  }
  return true;
}

// The integers of an operand whose shape has changed.
void refit(const OpDef& def, Sample& s, std::size_t i, const SizeChange& c) {
  SampleOperand& o = s.operands[i];
  const std::vector<std::int32_t> old = o.ints;
  const auto n = static_cast<std::size_t>(*o.shape.elements().constant());
  if (is_starts(def, s, i)) {
    const std::int64_t total = old.back(), now = followed(total, c).value_or(total);
    for (std::int32_t& start : o.ints)
      start = static_cast<std::int32_t>(total == 0 ? 0 : start * now / total);
    return;
  }
  o.ints.resize(n);
  for (std::size_t k = 0; k < n; ++k) o.ints[k] = old.empty() ? 0 : old[k % old.size()];
}

std::optional<Sample> if_taken(const OpDef& def, Sample s) {
  if (!takes(def, s)) return std::nullopt;
  return s;
}

}  // namespace

bool takes(const OpDef& def, const Sample& sample) {
  try {
    const Graph graph = sample_graph(def, sample);
    std::vector<Shape> shapes;
    for (const Node& n : graph.nodes()) shapes.insert(shapes.end(), n.results.begin(), n.results.end());
    return std::all_of(shapes.begin(), shapes.end(), [](const Shape& s) {
      return s.rank() == 0 || size_at(s, -1) % info(s.dtype).block_elements == 0;
    });
  } catch (const Error&) {
    return false;
  }
}

std::int64_t sample_elements(const OpDef& def, const Sample& sample) {
  std::int64_t n = 0;
  const Graph graph = sample_graph(def, sample);
  for (const Node& node : graph.nodes())
    for (const Shape& s : node.results)
      if (!s.is_state()) n += *s.elements().constant();
  return n;
}

std::optional<Sample> resized(const OpDef& def, const Sample& sample, const SizeChange& c) {
  Sample s = sample;
  const std::optional<std::size_t> sequences = sequences_at(s);
  const std::int64_t rows = sequences ? s.operands[*sequences].ints.back() : -1;
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    SampleOperand& o = s.operands[i];
    if (o.fill == Fill::pages || (sequences && o.fill == Fill::given)) continue;
    Shape shape = o.shape;
    // The starts of sequences are one more than those: only their values follow.
    for (int a = 0; a < shape.rank() && !is_starts(def, s, i); ++a) {
      if ((c.axes == OnAxes::first && a != 0) || (c.axes == OnAxes::last && a != shape.rank() - 1)) continue;
      if (sequences && a == 0 && shape.rank() > 1 && !shape.is_state() && size_at(shape, 0) == rows) continue;
      const std::optional<std::int64_t> now = followed(size_at(shape, a), c);
      if (!now) return std::nullopt;
      if (*now != size_at(shape, a)) shape = shape.with_dim(a, *now);
    }
    o.shape = shape;
    if (o.fill == Fill::given) refit(def, s, i, c);
  }
  if (c.attributes && !change_attributes(def, s.op, c)) return std::nullopt;
  return if_taken(def, std::move(s));
}

std::optional<Sample> with_batch(const OpDef& def, const Sample& sample, const Batch& batch) {
  const std::optional<std::size_t> at = sequences_at(sample);
  if (!at) return std::nullopt;
  Sample s = sample;
  const std::vector<std::int32_t>&starts = sample.operands[*at].ints, &past = sample.operands[*at + 1].ints,
       &slot = sample.operands[*at + 2].ints;
  s.operands[*at] = batch.seq_start();
  s.operands[*at + 1] = batch.pasts();
  s.operands[*at + 2] = batch.slot_ids();
  std::vector<std::size_t> of_rows;  // operands that may have a row a token
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    SampleOperand& o = s.operands[i];
    if (o.fill == Fill::pages) o = batch.pages();
    if (i > *at + 2 && o.fill == Fill::given) o = batch.positions();
    if (o.fill == Fill::recurrent) o.ints = {batch.slots};
    if (o.fill == Fill::kv) {
      // Attention reads a cache that holds the new rows, what appends to it does not.
      bool holds_rows = true;
      for (std::size_t b = 0; b < past.size(); ++b)
        holds_rows &= o.ints[static_cast<std::size_t>(slot[b])] == past[b] + starts[b + 1] - starts[b];
      o.ints = batch.cache(size_at(o.shape, 0), size_at(o.shape, 1), o.shape.dtype).ints;
      for (std::size_t b = 0; holds_rows && b < batch.slot.size(); ++b)
        o.ints[static_cast<std::size_t>(batch.slot[b])] += batch.rows[b];
    }
    if (!o.shape.is_state() && o.fill != Fill::given && o.shape.rank() > 1 && size_at(o.shape, 0) == starts.back())
      of_rows.push_back(i);
  }
  // A weight may have as many rows as there were tokens: the largest set that the op takes.
  const std::uint32_t all = (1u << std::min<std::size_t>(of_rows.size(), 10)) - 1;
  for (std::uint32_t set = all;; --set) {
    Sample tried = s;
    for (std::size_t k = 0; k < of_rows.size(); ++k)
      if ((set >> k & 1) != 0)
        tried.operands[of_rows[k]].shape = tried.operands[of_rows[k]].shape.with_dim(0, batch.total_rows());
    if (takes(def, tried)) return tried;
    if (set == 0) return std::nullopt;
  }
}

namespace {

// Makes vary(): steps that each change one thing, and stay when the op takes them.
class Variation {
 public:
  Variation(const OpDef& def, const Sample& base, std::uint64_t seed)
      : def_(def), random_(seed), sample_(base), most_(std::max<std::int64_t>(2 * sample_elements(def, base), 8192)) {}

  Sample make() {
    const std::int64_t steps = random_.between(1, 4);
    std::int64_t done = 0;
    for (int tries = 0; done < steps && tries < 40; ++tries) done += step();
    return std::move(sample_);
  }

 private:
  bool step() {
    std::optional<Sample> next;
    const std::int64_t what = random_.between(0, 9);
    if (what < 2 && sequences_at(sample_)) next = with_batch(def_, sample_, batch());
    else if (what < 6) next = resize();
    else if (what < 8) next = attribute();
    else if (what == 8) next = starts();
    else next = scale();
    if (!next || sample_elements(def_, *next) > most_) return false;
    sample_ = std::move(*next);
    return true;
  }

  template <typename T>
  const T& any(const std::vector<T>& list) {
    return list[random_.next() % list.size()];
  }

  std::optional<Sample> resize() {
    std::vector<std::int64_t> sizes;
    for (const SampleOperand& o : sample_.operands)
      for (int a = 0; o.fill != Fill::pages && a < o.shape.rank(); ++a) sizes.push_back(size_at(o.shape, a));
    for (const AttrField& f : def_.fields())
      if (is_size_attribute(f))
        for (const std::string& part : parts_of(f.type->print(sample_.op.data() + f.offset), ","))
          if (const auto v = as_integer(part); v && *v > 0 && *v < 4096) sizes.push_back(*v);
    if (sizes.empty()) return std::nullopt;
    SizeChange c;
    c.from = any(sizes);
    c.to = size_instead(c.from);
    c.follow = static_cast<Follow>(random_.between(0, 2));
    c.axes = random_.between(0, 2) != 0 ? OnAxes::all : static_cast<OnAxes>(random_.between(1, 2));
    c.attributes = random_.between(0, 3) != 0;
    return c.from == c.to ? std::nullopt : resized(def_, sample_, c);
  }

  // Whole blocks where rows of that length have them, else around the edges of kernel tiles or anywhere.
  std::int64_t size_instead(std::int64_t from) {
    std::int64_t block = 1;
    for (const SampleOperand& o : sample_.operands)
      if (o.shape.rank() > 0 && size_at(o.shape, -1) == from)
        block = std::max<std::int64_t>(block, info(o.shape.dtype).block_elements);
    if (block > 1) return block * random_.between(1, block == 32 ? 12 : 3);
    static const std::vector<std::int64_t> kEdges = {3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 128};
    switch (random_.between(0, 3)) {
      case 0:
        return random_.between(1, 2 * from + 6);
      case 1:
        return any(kEdges);
      case 2:
        return std::max<std::int64_t>(1, from + random_.between(-3, 3));
      default:
        return 32 * random_.between(1, 8);
    }
  }

  std::optional<Sample> attribute() {
    const std::span<const AttrField> fields = def_.fields();
    if (fields.empty()) return std::nullopt;
    const AttrField& f = fields[random_.next() % fields.size()];
    Sample s = sample_;
    std::byte* at = s.op.data() + f.offset;
    const std::string text = f.type->print(at), kind = f.type->described();
    std::string now = text;
    if (kind == "true or false") {
      now = text == "true" ? "false" : "true";
    } else if (kind == "an integer") {
      const std::int64_t v = as_integer(text).value_or(0);
      now = std::to_string(v < 0 || v > 1 << 20 ? v : random_.between(0, 2 * v + 2));
    } else if (kind == "a number") {
      float v = 0;
      std::from_chars(text.data(), text.data() + text.size(), v);
      // Smaller, not larger: a sharper softmax would ask more of narrow caches than their tolerance holds for.
      now = fmt::format("{}", v * static_cast<float>(0.5 + 0.5 * random_.uniform()));
    } else if (kind.starts_with("one of ")) {
      now = any(parts_of(std::string_view(kind).substr(7), ", "));
    }
    if (now == text || !f.type->parse(now, at)) return std::nullopt;
    return if_taken(def_, std::move(s));
  }

  std::optional<Sample> scale() {
    Sample s = sample_;
    if (s.operands.empty()) return std::nullopt;
    SampleOperand& o = s.operands[random_.next() % s.operands.size()];
    if (o.fill != Fill::normal) return std::nullopt;
    o.scale *= static_cast<float>(0.25 + 0.75 * random_.uniform());
    return s;
  }

  // Other lengths of the sequences; operands with equal starts keep equal ones.
  std::optional<Sample> starts() {
    Sample s = sample_;
    if (sequences_at(s)) return with_batch(def_, s, batch());
    bool any_starts = false;
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      if (!is_starts(def_, s, i)) continue;
      any_starts = true;
      std::vector<std::int32_t>& ints = s.operands[i].ints;
      for (std::size_t k = 1; k + 1 < ints.size(); ++k)
        ints[k] = static_cast<std::int32_t>(random_.between(0, ints.back()));
      std::sort(ints.begin(), ints.end());
      for (std::size_t j = 0; j < i; ++j)
        if (is_starts(def_, s, j) && sample_.operands[j].ints == sample_.operands[i].ints) ints = s.operands[j].ints;
    }
    return any_starts ? if_taken(def_, std::move(s)) : std::nullopt;
  }

  Batch batch() {
    Batch b;
    const auto n = static_cast<std::int32_t>(random_.between(1, 5));
    b.name = "random";
    b.pages_per_slot = static_cast<std::int32_t>(random_.between(1, 4));
    b.slots = n + static_cast<std::int32_t>(random_.between(0, 2));
    std::vector<std::int32_t> slots(static_cast<std::size_t>(b.slots));
    std::iota(slots.begin(), slots.end(), 0);
    for (std::size_t i = slots.size() - 1; i > 0; --i) std::swap(slots[i], slots[random_.next() % (i + 1)]);
    static const std::vector<std::int64_t> kRows = {0, 1, 1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64};
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int64_t rows = i == 0 ? std::max<std::int64_t>(any(kRows), 1) : any(kRows),
                         room = b.pages_per_slot * kPageTokens - rows;
      b.rows.push_back(static_cast<std::int32_t>(rows));
      b.past.push_back(static_cast<std::int32_t>(random_.between(0, 4) == 0 ? 0 : random_.between(0, room)));
      b.slot.push_back(slots[static_cast<std::size_t>(i)]);
    }
    return b;
  }

  const OpDef& def_;
  SampleRandom random_;
  Sample sample_;
  std::int64_t most_;  // elements
};

}  // namespace

Sample vary(const OpDef& def, const Sample& sample, std::uint64_t seed) {
  Sample s = Variation(def, sample, seed).make();
  s.name = fmt::format("{} varied by {}", sample.name, seed);
  return s;
}

std::string describe(const OpDef& def, const Sample& sample) {
  constexpr std::string_view kFills[] = {"normal", "range", "given", "kv", "pages", "ones", "frequencies", "recurrent"};
  std::string text = fmt::format("{}({}){}", def.name, sample.name, def.print(sample.op));
  for (const SampleOperand& o : sample.operands) {
    text += fmt::format("; {} {}", o.shape.text(), kFills[static_cast<std::size_t>(o.fill)]);
    if (o.scale != 1.0f) text += fmt::format(" {}", o.scale);
    if (!o.ints.empty()) text += fmt::format(" [{}]", fmt::join(o.ints, ","));
  }
  return text;
}

}  // namespace rlx
