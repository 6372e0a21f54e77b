#include "runtime/aot_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/build_id.h"
#include "base/checked.h"
#include "base/key_writer.h"
#include "device/program_io.h"
#include "runtime/source_identity.h"

namespace rlx {
namespace {

constexpr std::int64_t kEntryAlign = 64;

std::string entry_key(const WeightEntry& entry) {
  ByteWriter out;
  write_weight_entry(out, entry);
  return out.take();
}

std::string weights_name(const Digest& source, std::set<std::string> keys, const Backend& backend) {
  KeyWriter key("aot weights");
  key.digest("source", source).text("build", build_id()).text("device", backend.device().text());
  key.text("features", backend.features()).list("entries", keys.size());
  for (const std::string& k : keys) key.text("entry", k);
  return fmt::format("weights-{}-{}.rlxw", backend.device().kind, key.finish().hex());
}

// Who may read the file; part of what is compared when it is opened.
std::string weights_identity(const Digest& source, const Backend& backend) {
  ByteWriter out;
  out.text(build_id());
  out.text(backend.device().text());
  out.text(backend.features());
  out.digest(source);
  return out.take();
}

std::int64_t data_bytes(const std::vector<PackedWeights::Item>& items) {
  std::int64_t sum = 0;
  for (const PackedWeights::Item& i : items) sum += round_up(i.size, kEntryAlign);
  return sum;
}

// The entries one after the other, each at a multiple of 64 bytes, in pieces of kAotChunk.
template <typename F>
void each_chunk(const std::vector<PackedWeights::Item>& items, F&& use) {
  std::string chunk;
  chunk.reserve(static_cast<std::size_t>(kAotChunk));
  const auto put = [&](const char* from, std::int64_t n) {
    while (n > 0) {
      const std::int64_t k = std::min(n, kAotChunk - static_cast<std::int64_t>(chunk.size()));
      chunk.append(from, static_cast<std::size_t>(k));
      from += k;
      n -= k;
      if (static_cast<std::int64_t>(chunk.size()) < kAotChunk) continue;
      use(std::string_view(chunk));
      chunk.clear();
    }
  };
  constexpr char kZeros[kEntryAlign] = {};
  for (const PackedWeights::Item& i : items) {
    put(reinterpret_cast<const char*>(i.bytes), i.size);
    put(kZeros, round_up(i.size, kEntryAlign) - i.size);
  }
  if (!chunk.empty()) use(std::string_view(chunk));
}

}  // namespace

// An open weights file and what is wanted of it.
class CachedWeights::Load {
 public:
  Load(std::shared_ptr<const AotReader> file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  /// Errors: io; format.
  void read_head(const std::string& identity, Digest* content) {
    image_ = read_aot_image(*file_, AotKind::weights);
    if (image_->section(AotSection::identity) != identity)
      fail(ErrorCode::format, "{}: made from another checkpoint or for another machine", file_->name());
    ByteCursor in(image_->section(AotSection::entries), file_->name());
    *content = in.digest("content");
    std::int64_t at = 0;
    for (std::size_t n = in.count("entries", 12); n > 0; --n) {
      const std::string_view key = in.text("entry", 8192);
      const std::int64_t bytes = in.size("bytes of an entry", 0, image_->data_bytes);
      if (!entries_.emplace(key, std::pair(at, bytes)).second) in.fail("an entry occurs twice");
      at = require(checked_add(at, round_up(bytes, kEntryAlign)), "weights");
    }
    in.end();
    chunks_ = image_->section(AotSection::chunks);
    if (at != image_->data_bytes || static_cast<std::int64_t>(chunks_.size()) != 16 * ceil_div(at, kAotChunk))
      fail(ErrorCode::format, "{}: {} bytes of entries, {} of data", file_->name(), at, image_->data_bytes);
  }

  /// Takes an item when the file has it.
  bool take(const Item& item) {
    const auto at = entries_.find(entry_key(item.entry));
    if (at == entries_.end() || at->second.second != item.size) return false;
    wanted_.push_back({item, at->second.first, false});
    return true;
  }
  void sort() {
    std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) { return a.offset < b.offset; });
  }
  std::int64_t bytes() const { return image_->data_bytes; }
  const std::string& name() const { return name_; }
  const std::string& path() const { return file_->name(); }

  /// Reads and checks; `arrived` is told of each item whether its bytes are good. Ends early when `stop` is set.
  template <typename F>
  void read(const std::atomic<bool>& stop, F&& arrived) {
    std::size_t next = 0;  // the first item that has not arrived
    std::vector<std::byte> buffer(static_cast<std::size_t>(kAotChunk));
    for (std::int64_t begin = 0; begin < image_->data_bytes && next < wanted_.size() && !stop; begin += kAotChunk) {
      const std::int64_t end = std::min(begin + kAotChunk, image_->data_bytes);
      if (wanted_[next].offset < end) read_chunk(begin, end, next, buffer);
      while (next < wanted_.size() && wanted_[next].offset + wanted_[next].item.size <= end) {
        arrived(wanted_[next].item, !wanted_[next].damaged);
        ++next;
      }
    }
    for (; next < wanted_.size(); ++next) arrived(wanted_[next].item, false);
  }

 private:
  struct Wanted {
    Item item;
    std::int64_t offset;
    bool damaged;
  };

  bool chunk_is_good(std::int64_t begin, std::span<const std::byte> bytes) const {
    ByteCursor at(chunks_.substr(static_cast<std::size_t>(begin / kAotChunk * 16), 16), name_);
    return at.digest("chunk") == digest(bytes);
  }

  void read_chunk(std::int64_t begin, std::int64_t end, std::size_t next, std::vector<std::byte>& buffer) {
    const Wanted& first = wanted_[next];
    // A piece that lies inside one entry goes where it belongs without a copy.
    const bool direct = first.offset <= begin && end <= first.offset + first.item.size;
    const std::span<std::byte> to(direct ? first.item.bytes + (begin - first.offset) : buffer.data(),
                                  static_cast<std::size_t>(end - begin));
    bool good = false;
    try {
      file_->read(image_->data_offset + begin, to);
      good = chunk_is_good(begin, to);
    } catch (const Error&) {
      // As damaged as a wrong digest.
    }
    for (std::size_t i = next; i < wanted_.size() && wanted_[i].offset < end; ++i) {
      Wanted& w = wanted_[i];
      w.damaged = w.damaged || !good;
      const std::int64_t from = std::max(begin, w.offset), until = std::min(end, w.offset + w.item.size);
      if (!direct && good && from < until)
        std::copy_n(to.data() + (from - begin), until - from, w.item.bytes + (from - w.offset));
    }
  }

  std::shared_ptr<const AotReader> file_;
  std::string name_;
  std::unique_ptr<AotImage> image_;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>, std::less<>> entries_;  // offset and bytes in the data
  std::string_view chunks_;
  std::vector<Wanted> wanted_;
};

CachedWeights::CachedWeights(std::shared_ptr<AotShared> cache, std::shared_ptr<const WeightSource> source,
                             const Digest& identity, const Backend& backend, const Options& options)
    : cache_(std::move(cache)), source_(std::move(source)), backend_(backend), identity_(identity), options_(options) {}

CachedWeights::~CachedWeights() {
  stop_ = true;
  for (std::thread& t : readers_) t.join();
  cache_->flush();
}

std::unique_ptr<CachedWeights::Load> CachedWeights::open(const std::string& name, const std::vector<Item>& items) {
  if (cache_->rejected(name)) return nullptr;
  try {
    const std::shared_ptr<const AotReader> file = cache_->place().open(name);
    if (file == nullptr) {
      cache_->count(&AotStatistics::misses, name);
      return nullptr;
    }
    auto load = std::make_unique<Load>(file, name);
    Digest content;
    load->read_head(weights_identity(identity_, backend_), &content);
    if (options_.verify_content && content != content_digest(*source_))
      fail(ErrorCode::format, "{}: the checkpoint has changed", file->name());
    for (const Item& i : items)
      if (i.wanted && !load->take(i)) fail(ErrorCode::format, "{}: \"{}\" is missing", file->name(), i.entry.param);
    load->sort();
    return load;
  } catch (const std::exception& e) {
    cache_->reject(name, e.what());
    return nullptr;
  }
}

void CachedWeights::fill(std::vector<Item> items, const Pack& pack, Workers& workers, WeightGate& gate) {
  std::set<std::string> keys;
  for (const Item& i : items) keys.insert(entry_key(i.entry));
  const std::string name = weights_name(identity_, std::move(keys), backend_);
  std::shared_ptr<Load> load = open(name, items);
  if (load == nullptr) {
    for (const Item& i : items)
      if (i.wanted) pack(i, workers);
    keep(name, std::move(items), gate);
    return;
  }
  if (load->bytes() >= options_.read_at_once) {
    for (const Item& i : items)
      if (i.wanted) gate.expect(i.bytes);
    try {
      readers_.emplace_back([this, load, items = std::move(items), pack, &gate] {
        try {
          read_rest(load, items, pack, gate);
        } catch (const std::exception& e) {
          gate.give_up(e.what());
        }
      });
    } catch (const std::exception& e) {
      // No thread: whoever binds these weights gets the error, and nobody waits for them.
      gate.give_up(e.what());
      throw;
    }
    return;
  }
  bool good = true;
  load->read(stop_, [&](const Item& i, bool as_kept) {
    if (!as_kept) {
      if (good) cache_->reject(name, load->path() + ": the weights do not have their digest");
      good = false;
      pack(i, workers);
    }
  });
  if (good) {
    cache_->count(&AotStatistics::hits, name);
    cache_->place().mark_used(name);
  } else {
    keep(name, std::move(items), gate);
  }
}

void CachedWeights::read_rest(std::shared_ptr<Load> load, std::vector<Item> items, const Pack& pack, WeightGate& gate) {
  Workers alone(1);
  bool good = true, whole = true;
  load->read(stop_, [&](const Item& i, bool as_kept) {
    whole = whole && !stop_;
    if (!whole) return gate.arrived(i.bytes, "the session ends");
    std::string failure;
    if (!as_kept) {
      if (good) cache_->reject(load->name(), load->path() + ": the weights do not have their digest");
      good = false;
      try {
        pack(i, alone);
      } catch (const std::exception& e) {
        failure = e.what();
      }
    }
    gate.arrived(i.bytes, failure);
  });
  // A session that ends after the last item arrived has all that is to be written.
  if (!whole) return;
  if (good) {
    cache_->count(&AotStatistics::hits, load->name());
    cache_->place().mark_used(load->name());
  } else if (gate.failure().empty()) {
    keep(load->name(), std::move(items), gate);
  }
}

void CachedWeights::keep(const std::string& name, std::vector<Item> items, WeightGate& gate) {
  if (!cache_->place().writable()) return;
  cache_->save_later(name, [this, name, items = std::move(items), &gate] {
    gate.wait_all();
    if (!gate.failure().empty()) return false;
    // Another process was faster.
    if (!cache_->rejected(name) && cache_->place().open(name) != nullptr) return false;
    ByteWriter entries, chunks;
    entries.digest(content_digest(*source_));
    entries.number(static_cast<std::uint32_t>(items.size()));
    for (const Item& i : items) {
      entries.text(entry_key(i.entry));
      entries.number(i.size);
    }
    each_chunk(items, [&](std::string_view chunk) { chunks.digest(digest(chunk)); });
    const std::string head = make_aot_head(AotKind::weights,
                                           {{AotSection::identity, weights_identity(identity_, backend_)},
                                            {AotSection::entries, entries.take()},
                                            {AotSection::chunks, chunks.take()}},
                                           data_bytes(items));
    cache_->place().save(name, [&](const std::function<void(std::string_view)>& write) {
      write(head);
      each_chunk(items, write);
    });
    return true;
  });
}

}  // namespace rlx
