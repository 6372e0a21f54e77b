// Artefacts of one model in one file: images side by side, each checked by its own digests.
#include <algorithm>
#include <fstream>
#include <map>

#include "base/checked.h"
#include "base/error.h"
#include "runtime/aot_place.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

struct BundlePart {
  std::int64_t offset, bytes;  // in the data
};

class BundlePlace final : public AotPlace {
 public:
  explicit BundlePlace(const fs::path& path) : path_(path.string()), file_(AotReader::open(path)) {
    if (file_ == nullptr) fail(ErrorCode::io, "{}: expected a compiled model, found nothing", path_);
    const std::unique_ptr<AotImage> image = read_aot_image(*file_, AotKind::bundle);
    ByteCursor in(image->section(AotSection::entries), path_);
    for (std::size_t n = in.count("files", 20); n > 0; --n) {
      std::string name(in.text("name of a file", 255));
      const std::int64_t offset = in.size("offset of a file", 0, image->data_bytes),
                         bytes = in.size("bytes of a file", 0, image->data_bytes - offset);
      parts_[std::move(name)] = {image->data_offset + offset, bytes};
    }
    in.end();
    source_ = image->section(AotSection::identity);
  }

  const std::string& source() const { return source_; }
  std::string text() const override { return path_; }
  std::shared_ptr<const AotReader> open(const std::string& name) const override {
    const auto at = parts_.find(name);
    return at == parts_.end() ? nullptr : file_->part(at->second.offset, at->second.bytes);
  }
  bool writable() const override { return false; }
  void save(const std::string&, const AotContent&) override {}
  void mark_used(const std::string&) const override {}

 private:
  std::string path_, source_;
  std::shared_ptr<const AotReader> file_;
  std::map<std::string, BundlePart> parts_;
};

}  // namespace

std::unique_ptr<AotPlace> open_aot_bundle(const fs::path& file) { return std::make_unique<BundlePlace>(file); }

std::string aot_bundle_source(const fs::path& file) { return BundlePlace(file).source(); }

bool is_aot_bundle(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return false;
  const std::string expected = make_aot_head(AotKind::bundle, {}, 0).substr(0, 8);
  std::string found(expected.size(), '\0');
  std::ifstream(file, std::ios::binary).read(found.data(), static_cast<std::streamsize>(found.size()));
  return found == expected;
}

void write_aot_bundle(const fs::path& folder, const std::string& source, const fs::path& file) {
  std::vector<std::pair<std::string, std::shared_ptr<const AotReader>>> files;
  for (const fs::directory_entry& e : fs::directory_iterator(folder))
    if (e.path().extension() == ".rlxv" || e.path().extension() == ".rlxw")
      files.emplace_back(e.path().filename().string(), AotReader::open(e.path()));
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ByteWriter table;
  table.number(static_cast<std::uint32_t>(files.size()));
  std::int64_t bytes = 0;
  for (const auto& [name, reader] : files) {
    table.text(name);
    table.number(bytes);
    table.number(reader->bytes());
    bytes += round_up(reader->bytes(), kAotPage);
  }
  const std::string head =
      make_aot_head(AotKind::bundle, {{AotSection::identity, source}, {AotSection::entries, table.take()}}, bytes);
  write_file_pieces(file, [&](const std::function<void(std::string_view)>& write) {
    write(head);
    for (const auto& [name, reader] : files) {
      for (std::int64_t at = 0; at < reader->bytes(); at += kAotChunk)
        write(reader->read(at, std::min(kAotChunk, reader->bytes() - at)));
      write(std::string(static_cast<std::size_t>(round_up(reader->bytes(), kAotPage) - reader->bytes()), '\0'));
    }
  });
}

}  // namespace rlx
