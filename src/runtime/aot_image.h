// The form of all files of the AOT cache: a header, a table of sections with a digest each, the sections.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_stream.h"

namespace rlx {

/// What a file of the cache holds. bundle: several images in one file (`rlx compile`).
enum class AotKind : std::uint32_t { variant = 1, weights = 2, bundle = 3 };
/// identity: who may read the file; program, plan, reports: of a variant; entries, chunks: tables of a weights file or
/// a bundle; data: bytes that are checked by chunks, always the last section, at a multiple of kAotPage.
enum class AotSection : std::uint32_t { identity = 1, program, plan, reports, entries, chunks, data };

inline constexpr std::int64_t kAotPage = 4096;
inline constexpr std::int64_t kAotChunk = 1 << 20;  ///< bytes of data behind one digest
inline constexpr std::uint32_t kAotFormat = 1;

/// Begin of every file: magic, format, kind, bytes of the whole file, count of sections, digest of header and table.
inline constexpr std::size_t kAotHeaderBytes = 48;
inline constexpr std::size_t kAotTableRow = 40;

struct AotPart {
  AotSection id;
  std::string content;
};

/// Header, table, sections and the padding before the data, whose `data_bytes` (0: none) the caller writes behind it.
std::string make_aot_head(AotKind kind, const std::vector<AotPart>& parts, std::int64_t data_bytes);

/// A part of an open file, as an image of its own. Reads by offset, so that a file that is cut meanwhile is an error
/// and no signal.
class AotReader {
 public:
  /// Owner and mode are checked: regular, of this user or root, and nobody else may write it. nullptr: there is none.
  /// Error(io): cannot be opened or may not be trusted.
  static std::shared_ptr<const AotReader> open(const std::filesystem::path& path);
  /// The range [offset, offset + bytes) of this one. Error(format): it leaves it.
  std::shared_ptr<const AotReader> part(std::int64_t offset, std::int64_t bytes) const;

  const std::string& name() const { return name_; }
  std::int64_t bytes() const { return bytes_; }
  /// Errors (io): a read failed or the file ended.
  void read(std::int64_t offset, std::span<std::byte> out) const;
  std::string read(std::int64_t offset, std::int64_t bytes) const;

 private:
  class File;
  AotReader() = default;
  std::shared_ptr<const File> file_;
  std::string name_;
  std::int64_t begin_ = 0, bytes_ = 0;
};

/// A checked head. Views lie in `head`.
struct AotImage {
  std::string head;
  std::vector<std::pair<AotSection, std::string_view>> sections;
  std::vector<Digest> digests;  ///< of the sections, in order
  std::int64_t data_offset = 0, data_bytes = 0;

  AotImage() = default;
  AotImage(const AotImage&) = delete;
  AotImage& operator=(const AotImage&) = delete;

  /// Error(format): no such section.
  std::string_view section(AotSection id) const;
  Digest digest_of(AotSection id) const;
};

/// Reads everything but the data and checks it. Errors: format (anything that is not as make_aot_head writes it, with
/// the offset); io.
std::unique_ptr<AotImage> read_aot_image(const AotReader& from, AotKind kind);
/// The same over bytes in memory; `total` is the size that the file has.
std::unique_ptr<AotImage> parse_aot_image(std::string head, std::int64_t total, AotKind kind, std::string_view name);

}  // namespace rlx
