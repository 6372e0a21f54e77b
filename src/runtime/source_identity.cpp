#include "runtime/source_identity.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/key_writer.h"

namespace rlx {
namespace {

constexpr std::size_t kSampleBytes = 64;

void write_type(KeyWriter& key, const WeightRef& w) {
  key.text("tensor", w.name).text("dtype", name(w.dtype)).list("shape", w.shape.size());
  for (const std::int64_t d : w.shape) key.integer("dim", d);
}

Digest samples_of(std::span<const std::byte> data) {
  if (data.size() <= 3 * kSampleBytes) return digest(data);
  std::string samples;
  for (const std::size_t at : {std::size_t{0}, data.size() / 2, data.size() - kSampleBytes})
    samples.append(reinterpret_cast<const char*>(data.data()) + at, kSampleBytes);
  return digest(samples);
}

// Everything before the first tensor: names, types, offsets and metadata.
struct FileHead {
  std::size_t end = SIZE_MAX;
};

void write_file(KeyWriter& key, const MappedFile& file, const FileHead& head) {
  struct stat st {};
  if (::stat(file.path().c_str(), &st) == 0) {
    key.integer("inode", static_cast<std::int64_t>(st.st_ino));
    key.integer("seconds", st.st_mtim.tv_sec).integer("nanoseconds", st.st_mtim.tv_nsec);
  }
  key.integer("bytes", static_cast<std::int64_t>(file.bytes().size()));
  key.digest("head", digest(file.bytes().first(std::min(head.end, file.bytes().size()))));
}

}  // namespace

Digest source_identity(const WeightSource& source) {
  KeyWriter key("source");
  std::map<std::string, std::pair<const MappedFile*, FileHead>> files;  // by path, so that the order is one
  for (const std::string& name : source.names()) {
    const WeightRef& w = *source.find(name);
    write_type(key, w);
    if (w.file == nullptr) {
      key.digest("content", digest(w.data));
      continue;
    }
    auto& [file, head] = files[w.file->path()];
    if (file == nullptr) w.file->check_not_cut();
    file = w.file;
    if (w.data.empty()) continue;
    head.end = std::min(head.end, static_cast<std::size_t>(w.data.data() - w.file->bytes().data()));
    key.digest("samples", samples_of(w.data));
  }
  for (const auto& [path, f] : files) write_file(key, *f.first, f.second);
  return key.finish();
}

namespace {

// About 0.1 ms of digesting.
constexpr std::int64_t kMostReadForAKey = 1 << 20;

void write_params(KeyWriter& key, const BuiltModel& model) {
  for (const ModelParam& p : model.params) {
    key.text("param", p.name).integer("bytes", p.stored_bytes());
    // What the flow made itself is in no source: factors of adapters, tables of positions.
    if (p.owned != nullptr) key.digest("content", digest(p.weight.data));
    for (const WeightRef& part : p.parts)
      key.text("part", part.name).integer("bytes", static_cast<std::int64_t>(part.data.size()));
  }
}

}  // namespace

Digest weights_identity(const BuiltModel& model) {
  KeyWriter key("weights");
  if (model.weights != nullptr) key.digest("source", source_identity(*model.weights));
  write_params(key, model);
  return key.finish();
}

Digest process_identity(const BuiltModel& model) {
  if (model.weights == nullptr) return weights_identity(model);
  std::int64_t in_memory = 0;
  for (const std::string& name : model.weights->names())
    if (const WeightRef& w = *model.weights->find(name); w.file == nullptr)
      in_memory += static_cast<std::int64_t>(w.data.size());
  if (in_memory <= kMostReadForAKey) return weights_identity(model);
  // Who asks keeps the source alive, so that no other one gets its address.
  KeyWriter key("weights in memory");
  key.text("origin", model.weights->origin());
  key.integer("source", static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(model.weights.get())));
  write_params(key, model);
  return key.finish();
}

Digest content_digest(const WeightSource& source) {
  KeyWriter key("content");
  for (const std::string& name : source.names()) {
    const WeightRef& w = *source.find(name);
    write_type(key, w);
    if (w.file != nullptr) w.file->check_not_cut();
    key.digest("data", digest(w.data));
    if (w.file != nullptr) w.file->drop(w.data);
  }
  return key.finish();
}

}  // namespace rlx
