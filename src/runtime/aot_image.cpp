#include "runtime/aot_image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"

namespace rlx {
namespace {

constexpr std::string_view kAotMagic("RLXAOT\n\0", 8);
constexpr std::size_t kMostSections = 8;
constexpr std::int64_t kMostHeadBytes = 256 << 20;

// The table's digest covers the header before it, too.
Digest table_digest(std::string_view header, std::string_view table) {
  std::string both(header.substr(0, 32));
  both += table;
  return digest(both);
}

struct TableRow {
  AotSection id;
  std::int64_t offset, bytes;
  Digest sum;
};

std::vector<TableRow> read_table(ByteCursor& in, std::size_t count, std::int64_t total) {
  std::vector<TableRow> rows;
  std::int64_t end = static_cast<std::int64_t>(kAotHeaderBytes + count * kAotTableRow);
  for (std::size_t i = 0; i < count; ++i) {
    TableRow r;
    const auto id = in.number<std::uint32_t>("section");
    r.id = static_cast<AotSection>(id);
    if (id < 1 || id > 7 || (i > 0 && rows.back().id >= r.id)) in.fail("section {} is out of order", id);
    if (in.number<std::uint32_t>("padding") != 0) in.fail("padding that is not zero");
    r.offset = in.size("offset of a section", 0, total);
    r.bytes = in.size("bytes of a section", 0, total);
    r.sum = in.digest("digest of a section");
    if (r.id == AotSection::data) end = round_up(end, kAotPage);
    if (r.offset != end || r.bytes > total - end) in.fail("section {} is not where the one before it ends", id);
    end += r.bytes;
    rows.push_back(r);
  }
  if (end != total) in.fail("sections end at {}, the file at {}", end, total);
  return rows;
}

}  // namespace

class AotReader::File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  ~File() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

std::shared_ptr<const AotReader> AotReader::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT) return nullptr;
    fail(ErrorCode::io, "{}: cannot open: {}", path.string(), std::strerror(errno));
  }
  std::shared_ptr<AotReader> reader(new AotReader);
  reader->file_ = std::make_shared<const File>(fd);
  reader->name_ = path.string();
  struct stat st {};
  if (::fstat(fd, &st) != 0) fail(ErrorCode::io, "{}: cannot stat: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(st.st_mode)) fail(ErrorCode::io, "{}: expected a regular file", path.string());
  // Programs are loaded from it.
  if ((st.st_uid != ::geteuid() && st.st_uid != 0) || (st.st_mode & 022) != 0)
    fail(ErrorCode::io, "{}: not read: others may write it (mode {:o})", path.string(), st.st_mode & 07777);
  reader->bytes_ = st.st_size;
  return reader;
}

std::shared_ptr<const AotReader> AotReader::part(std::int64_t offset, std::int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > bytes_ || bytes > bytes_ - offset)
    fail(ErrorCode::format, "{}: a part at {} of {} bytes leaves the {} bytes", name_, offset, bytes, bytes_);
  std::shared_ptr<AotReader> reader(new AotReader);
  reader->file_ = file_;
  reader->name_ = name_;
  reader->begin_ = begin_ + offset;
  reader->bytes_ = bytes;
  return reader;
}

void AotReader::read(std::int64_t offset, std::span<std::byte> out) const {
  RLX_CHECK(offset >= 0 && static_cast<std::int64_t>(out.size()) <= bytes_ - offset, name_);
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t n =
        ::pread(file_->fd(), out.data() + done, out.size() - done, begin_ + offset + static_cast<std::int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(ErrorCode::io, "{}: cannot read: {}", name_, n < 0 ? std::strerror(errno) : "the file was cut");
    done += static_cast<std::size_t>(n);
  }
}

std::string AotReader::read(std::int64_t offset, std::int64_t bytes) const {
  std::string content(static_cast<std::size_t>(bytes), '\0');
  read(offset, std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

std::string make_aot_head(AotKind kind, const std::vector<AotPart>& parts, std::int64_t data_bytes) {
  const std::size_t count = parts.size() + (data_bytes > 0 ? 1 : 0);
  ByteWriter table;
  std::int64_t at = static_cast<std::int64_t>(kAotHeaderBytes + count * kAotTableRow);
  const auto row = [&](AotSection id, std::int64_t bytes, const Digest& sum) {
    table.number(static_cast<std::uint32_t>(id));
    table.number(std::uint32_t{0});
    table.number(at);
    table.number(bytes);
    table.digest(sum);
    at += bytes;
  };
  for (const AotPart& p : parts) row(p.id, static_cast<std::int64_t>(p.content.size()), digest(p.content));
  const std::int64_t end = at;
  if (data_bytes > 0) {
    at = round_up(at, kAotPage);
    row(AotSection::data, data_bytes, Digest{});
  }
  ByteWriter out;
  out.append(kAotMagic);
  out.number(kAotFormat);
  out.number(static_cast<std::uint32_t>(kind));
  out.number(at);
  out.number(static_cast<std::uint32_t>(count));
  out.number(std::uint32_t{0});
  out.digest(table_digest(out.bytes(), table.bytes()));
  out.append(table.bytes());
  for (const AotPart& p : parts) out.append(p.content);
  if (data_bytes > 0) out.zeros(static_cast<std::size_t>(round_up(end, kAotPage) - end));
  return out.take();
}

std::string_view AotImage::section(AotSection id) const {
  for (const auto& [mine, bytes] : sections)
    if (mine == id) return bytes;
  fail(ErrorCode::format, "section {} is missing", static_cast<std::uint32_t>(id));
}

Digest AotImage::digest_of(AotSection id) const {
  for (std::size_t i = 0; i < sections.size(); ++i)
    if (sections[i].first == id) return digests[i];
  return {};
}

std::unique_ptr<AotImage> parse_aot_image(std::string head, std::int64_t total, AotKind kind, std::string_view name) {
  auto image = std::make_unique<AotImage>();
  image->head = std::move(head);
  ByteCursor in(image->head, name);
  if (in.take(kAotMagic.size(), "magic") != kAotMagic) in.fail("not a file of the cache");
  if (const auto format = in.number<std::uint32_t>("format"); format != kAotFormat)
    in.fail("format {}, expected {}", format, kAotFormat);
  if (const auto found = in.number<std::uint32_t>("kind"); found != static_cast<std::uint32_t>(kind))
    in.fail("kind {}, expected {}", found, static_cast<std::uint32_t>(kind));
  if (const auto bytes = in.number<std::int64_t>("bytes"); bytes != total)
    in.fail("expected a file of {} bytes, found {}", static_cast<std::uint64_t>(bytes), total);
  const auto count = in.number<std::uint32_t>("sections");
  if (count > kMostSections) in.fail("{} sections", count);
  if (in.number<std::uint32_t>("padding") != 0) in.fail("padding that is not zero");
  const Digest sum = in.digest("digest");
  const std::string_view table_bytes = in.take(count * kAotTableRow, "table");
  if (table_digest(image->head, table_bytes) != sum) in.fail("header and table do not have their digest");
  ByteCursor table(std::string_view(image->head).substr(0, kAotHeaderBytes + table_bytes.size()), name);
  table.take(kAotHeaderBytes, "header");
  for (const TableRow& r : read_table(table, count, total)) {
    if (r.id == AotSection::data) {
      image->data_offset = r.offset;
      image->data_bytes = r.bytes;
      const std::string_view padding = in.take(static_cast<std::size_t>(r.offset) - in.offset(), "padding");
      if (padding.find_first_not_of('\0') != std::string_view::npos) in.fail("padding that is not zero");
      continue;
    }
    const std::string_view content = in.take(static_cast<std::size_t>(r.bytes), "section");
    if (digest(content) != r.sum) in.fail("section {} does not have its digest", static_cast<std::uint32_t>(r.id));
    image->sections.emplace_back(r.id, content);
    image->digests.push_back(r.sum);
  }
  in.end();
  return image;
}

std::unique_ptr<AotImage> read_aot_image(const AotReader& from, AotKind kind) {
  std::int64_t head = from.bytes();
  // The data stays in the file: the table says where it begins.
  if (from.bytes() >= static_cast<std::int64_t>(kAotHeaderBytes)) {
    const std::string first = from.read(0, static_cast<std::int64_t>(kAotHeaderBytes));
    ByteCursor in(first, from.name());
    in.take(24, "header");
    const std::int64_t count = in.number<std::uint32_t>("sections");
    const std::int64_t last =
        static_cast<std::int64_t>(kAotHeaderBytes) + (count - 1) * static_cast<std::int64_t>(kAotTableRow);
    if (count >= 1 && count <= static_cast<std::int64_t>(kMostSections) &&
        last + static_cast<std::int64_t>(kAotTableRow) <= from.bytes()) {
      const std::string row = from.read(last, static_cast<std::int64_t>(kAotTableRow));
      ByteCursor at(row, from.name());
      const auto id = at.number<std::uint32_t>("section");
      at.take(4, "padding");
      const auto offset = at.number<std::int64_t>("offset");
      if (id == static_cast<std::uint32_t>(AotSection::data) && offset > last && offset < head) head = offset;
    }
  }
  if (head > kMostHeadBytes) fail(ErrorCode::format, "{}: {} bytes before the data", from.name(), head);
  return parse_aot_image(from.read(0, head), from.bytes(), kind, from.name());
}

}  // namespace rlx
