// Files: read-only mappings and atomic writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// Read-only memory mapping of a regular file. Movable; the bytes stay valid while it lives.
/// Errors (io): the file is missing, is not a regular file, cannot be read, or is empty.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&&) noexcept;
  MappedFile& operator=(MappedFile&&) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Throws Error(io) when the file on disk is now shorter than what was mapped, so that a caller
  /// that is about to read a range never gets SIGBUS from a file that was cut meanwhile. One fstat.
  void check_not_cut() const;

  /// Says that `range` (part of bytes()) will be read soon / is no longer needed, so that its pages
  /// may be fetched or leave the resident set; they come back from the file when they are touched
  /// again.
  void will_need(std::span<const std::byte> range) const noexcept;
  void drop(std::span<const std::byte> range) const noexcept;

 private:
  std::string path_;
  int fd_ = -1;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The path of the mapping that holds an address, nullptr when none does. For a handler of SIGBUS,
/// which a file that is cut while it is mapped raises: takes no lock and allocates nothing.
const char* mapped_file_at(const void* address) noexcept;

/// The whole content of a file as bytes. Errors (io) as MappedFile; also above `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = 1ull << 30);

/// Writes the file beside its place, syncs and renames it: a reader sees the old content or all of
/// the new one. Through a link its target is replaced; a device, FIFO or socket is written to as it
/// is; an existing file keeps its mode. Errors (io): a folder, no permission, disk full, rename
/// failed; the temporary file is removed.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::byte> content);
void write_file_atomic(const std::filesystem::path& path, std::string_view content);

/// The mode that open() gives an ordinary file, which the umask decides. Not for two threads at once.
unsigned mode_of_new_files();

}  // namespace rlx
