#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace rlx {
namespace {

std::string reason() { return std::strerror(errno); }

// Opens a regular file for reading; returns the descriptor and the size.
std::pair<int, std::size_t> open_regular(const std::string& path) {
  // O_NONBLOCK: opening a FIFO or a device given by mistake must not hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(ErrorCode::io, "{}: cannot open: {}", path, reason());
  struct stat st {};
  if (::fstat(fd, &st) != 0) {
    const std::string why = reason();
    ::close(fd);
    fail(ErrorCode::io, "{}: cannot stat: {}", path, why);
  }
  if (!S_ISREG(st.st_mode)) {
    ::close(fd);
    fail(ErrorCode::io, "{}: expected a regular file, found a {}", path,
         S_ISDIR(st.st_mode) ? "folder" : "special file");
  }
  return {fd, static_cast<std::size_t>(st.st_size)};
}

// The part of `range` made of whole pages, as madvise wants it.
std::pair<void*, std::size_t> whole_pages(std::span<const std::byte> range, bool outwards) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const auto end = begin + range.size();
  const auto first = outwards ? begin / page * page : (begin + page - 1) / page * page;
  const auto last = outwards ? end : end / page * page;
  if (last <= first) return {nullptr, 0};
  return {reinterpret_cast<void*>(first), last - first};
}

// What is mapped, for a signal handler that finds a file cut: a fixed table without locks. A mapping that finds no room
// is only not named.
struct MappedFileSlot {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<std::size_t> size{0};
  char path[512] = {};
};
class MappedFiles {
 public:
  static void add(const MappedFile& file) noexcept {
    for (MappedFileSlot& s : slots_) {
      const std::byte* none = nullptr;
      if (s.begin.load() != nullptr || !s.begin.compare_exchange_strong(none, file.bytes().data())) continue;
      std::strncpy(s.path, file.path().c_str(), sizeof s.path - 1);
      s.size.store(file.bytes().size());
      return;
    }
  }
  static void remove(const std::byte* data) noexcept {
    if (data == nullptr) return;
    for (MappedFileSlot& s : slots_)
      if (s.begin.load() == data) {
        s.size.store(0);
        s.begin.store(nullptr);
        return;
      }
  }
  static const char* at(const void* address) noexcept {
    const auto a = reinterpret_cast<std::uintptr_t>(address);
    for (const MappedFileSlot& s : slots_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(s.begin.load());
      if (begin != 0 && a >= begin && a - begin < s.size.load()) return s.path;
    }
    return nullptr;
  }

 private:
  static inline MappedFileSlot slots_[128];
};

}  // namespace

const char* mapped_file_at(const void* address) noexcept { return MappedFiles::at(address); }

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path.string()) {
  std::tie(fd_, size_) = open_regular(path_);
  if (size_ == 0) {
    ::close(fd_);
    fail(ErrorCode::io, "{}: the file is empty", path_);
  }
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (p == MAP_FAILED) {
    const int error = errno;
    ::close(fd_);
    fail(error == ENOMEM ? ErrorCode::memory : ErrorCode::io, "{}: cannot map {} bytes: {}", path_, size_,
         std::strerror(error));
  }
  data_ = static_cast<const std::byte*>(p);
  MappedFiles::add(*this);
}

MappedFile::MappedFile(MappedFile&& o) noexcept
    : path_(std::move(o.path_)),
      fd_(std::exchange(o.fd_, -1)),
      data_(std::exchange(o.data_, nullptr)),
      size_(std::exchange(o.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& o) noexcept {
  std::swap(path_, o.path_);
  std::swap(fd_, o.fd_);
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}

MappedFile::~MappedFile() {
  MappedFiles::remove(data_);
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::check_not_cut() const {
  struct stat st {};
  if (::fstat(fd_, &st) != 0) fail(ErrorCode::io, "{}: cannot stat: {}", path_, reason());
  if (static_cast<std::size_t>(st.st_size) < size_)
    fail(ErrorCode::io, "{}: the file was cut while in use: expected {} bytes, found {}", path_,
         size_, st.st_size);
}

void MappedFile::will_need(std::span<const std::byte> range) const noexcept {
  if (auto [p, n] = whole_pages(range, true); n != 0) ::madvise(p, n, MADV_WILLNEED);
}

void MappedFile::drop(std::span<const std::byte> range) const noexcept {
  if (auto [p, n] = whole_pages(range, false); n != 0) ::madvise(p, n, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  auto [fd, size] = open_regular(path.string());
  if (size > max_bytes) {
    ::close(fd);
    fail(ErrorCode::io, "{}: {} bytes, expected at most {}", path.string(), size, max_bytes);
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, content.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const std::string why = n < 0 ? reason() : "the file was cut while it was read";
      ::close(fd);
      fail(ErrorCode::io, "{}: cannot read: {}", path.string(), why);
    }
    done += static_cast<std::size_t>(n);
  }
  ::close(fd);
  return content;
}

namespace {

// Errno stays as the failed call left it; true when all was written.
bool write_all(int fd, std::span<const std::byte> content) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

// A device, FIFO or socket: renaming over it would put a file in its place (/dev/stdout, /dev/full).
void write_through(const std::string& path, std::span<const std::byte> content) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail(ErrorCode::io, "{}: cannot open: {}", path, reason());
  const bool written = write_all(fd, content);
  const std::string why = reason();
  ::close(fd);
  if (!written) fail(ErrorCode::io, "{}: cannot write: {}", path, why);
}

}  // namespace

unsigned mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

void write_file_atomic(const std::filesystem::path& wanted, std::span<const std::byte> content) {
  struct stat st {};
  std::filesystem::path path = wanted;
  const bool exists = ::stat(wanted.c_str(), &st) == 0;
  if (exists) {
    if (S_ISDIR(st.st_mode)) fail(ErrorCode::io, "{}: expected a file, found a folder", wanted.string());
    if (!S_ISREG(st.st_mode)) return write_through(wanted.string(), content);
    // What a link points at is replaced, not the link.
    std::error_code failed;
    const std::filesystem::path target = std::filesystem::canonical(wanted, failed);
    if (!failed) path = target;
  }
  std::string tmp = path.string() + ".XXXXXX";
  const int fd = ::mkstemp(tmp.data());
  if (fd < 0)
    fail(ErrorCode::io, "{}: cannot create a file beside it: {}", path.string(), reason());
  const auto give_up = [&](const char* what) {
    const std::string why = reason();
    ::close(fd);
    ::unlink(tmp.c_str());
    fail(ErrorCode::io, "{}: cannot {}: {}", path.string(), what, why);
  };
  if (!write_all(fd, content)) give_up("write");
  // mkstemp makes the file owner-only; give it what the file had, or what an ordinary open would have.
  if (::fchmod(fd, exists ? st.st_mode & 07777 : mode_of_new_files()) != 0) give_up("set the mode");
  if (::fsync(fd) != 0) give_up("sync");
  if (::rename(tmp.c_str(), path.c_str()) != 0) give_up("rename");
  ::close(fd);
}
void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  write_file_atomic(path, std::as_bytes(std::span(content.data(), content.size())));
}

}  // namespace rlx
