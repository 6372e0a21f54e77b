// The folder of the AOT cache: who may use it, whole files only, a bound on its size.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/hash.h"
#include "runtime/aot_place.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kLockFile = ".lock";

std::string aot_reason(int error) { return std::strerror(error); }

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// A write beyond RLIMIT_FSIZE raises SIGXFSZ, which ends a process that does not expect it: blocked, it is the error
// EFBIG.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() {
    sigemptyset(&mine_);
    sigaddset(&mine_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &mine_, &before_);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  ~NoFileSizeSignal() {
    const timespec now{0, 0};
    if (!sigismember(&before_, SIGXFSZ)) sigtimedwait(&mine_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t mine_, before_;
};

void check_owner(const fs::path& folder) {
  struct stat st {};
  if (::stat(folder.c_str(), &st) != 0) fail(ErrorCode::io, "{}: cannot stat: {}", folder.string(), aot_reason(errno));
  if (!S_ISDIR(st.st_mode)) fail(ErrorCode::io, "{}: expected a folder", folder.string());
  if (st.st_uid != ::geteuid() && st.st_uid != 0)
    fail(ErrorCode::io, "{}: the folder belongs to user {}, not to {}", folder.string(), st.st_uid, ::geteuid());
  if ((st.st_mode & 022) != 0)
    fail(ErrorCode::io,
         "{}: others may write this folder (mode {:o}), and programs are loaded from it; `chmod go-w` it",
         folder.string(), st.st_mode & 07777);
}

void make_folders(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  make_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(ErrorCode::io, "{}: cannot make the folder: {}", folder.string(), aot_reason(errno));
}

// A temporary file is locked while its process lives; whoever gets the lock of another may remove it.
int make_temporary(const fs::path& folder, std::string& path) {
  for (int tries = 0; tries < 100; ++tries) {
    path = (folder / kTemporary).string() + "XXXXXX";
    const int fd = ::mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) fail(ErrorCode::io, "{}: cannot write: {}", folder.string(), aot_reason(errno));
    struct stat st {};
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &st) == 0 && st.st_nlink > 0) return fd;
    ::close(fd);  // removed between its making and its lock
    ::unlink(path.c_str());
  }
  fail(ErrorCode::io, "{}: cannot keep a temporary file", folder.string());
}

class FolderPlace final : public AotPlace {
 public:
  FolderPlace(fs::path folder, std::int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {
    make_folders(folder_);
    check_owner(folder_);
    remove_leftovers();
  }

  std::string text() const override { return folder_.string(); }
  std::shared_ptr<const AotReader> open(const std::string& name) const override {
    return AotReader::open(folder_ / name);
  }
  bool writable() const override { return true; }
  void mark_used(const std::string& name) const override {
    // The time of the last use; a folder that cannot be written keeps what it has.
    ::utimensat(AT_FDCWD, (folder_ / name).c_str(), nullptr, 0);
  }

  void save(const std::string& name, const AotContent& content) override {
    const Descriptor lock(::open((folder_ / kLockFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (lock.get() < 0) fail(ErrorCode::io, "{}: cannot write: {}", text(), aot_reason(errno));
    if (!take_lock(lock.get(), name)) return;  // somebody writes the same
    write_file_pieces(folder_ / name, content);
    make_room(name);
  }

 private:
  // One byte of the lock file for each name; let go when the descriptor is closed, also by a kill.
  static bool take_lock(int fd, const std::string& name) {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(hash64(name) >> 2);
    range.l_len = 1;
    return ::fcntl(fd, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
  }

  template <typename F>
  void each_file(F&& f) const {
    DIR* dir = ::opendir(folder_.c_str());
    if (dir == nullptr) return;
    while (const dirent* e = ::readdir(dir)) {
      struct stat st {};
      if (::fstatat(::dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        f(std::string(e->d_name), st);
    }
    ::closedir(dir);
  }

  void remove_leftovers() const {
    std::vector<std::string> left;
    each_file([&](const std::string& name, const struct stat&) {
      if (name.starts_with(kTemporary)) left.push_back(name);
    });
    for (const std::string& name : left) {
      const Descriptor file(::open((folder_ / name).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
      if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink((folder_ / name).c_str());
    }
  }

  void make_room(const std::string& newest) const {
    struct Kept {
      timespec used;
      std::int64_t bytes;
      std::string name;
    };
    std::vector<Kept> all;
    std::int64_t sum = 0;
    each_file([&](const std::string& name, const struct stat& st) {
      if (!name.ends_with(".rlxv") && !name.ends_with(".rlxw")) return;
      sum += st.st_size;
      all.push_back({st.st_mtim, st.st_size, name});
    });
    std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) {
      return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
    });
    for (const Kept& k : all) {
      if (sum <= most_bytes_) return;
      if (k.name == newest || ::unlink((folder_ / k.name).c_str()) != 0) continue;
      sum -= k.bytes;
    }
  }

  fs::path folder_;
  std::int64_t most_bytes_;
};

}  // namespace

void write_file_pieces(const fs::path& target, const AotContent& content) {
  std::error_code ignored;
  if (fs::exists(target, ignored) && !fs::is_regular_file(target, ignored))
    fail(ErrorCode::io, "{}: expected a file to write, found something else", target.string());
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  const NoFileSizeSignal guard;
  std::string path;
  const Descriptor file(make_temporary(folder, path));
  try {
    content([&](std::string_view piece) {
      while (!piece.empty()) {
        const ssize_t n = ::write(file.get(), piece.data(), piece.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail(ErrorCode::io, "{}: cannot write: {}", target.string(), aot_reason(errno));
        piece.remove_prefix(static_cast<std::size_t>(n));
      }
    });
    if (::fsync(file.get()) != 0) fail(ErrorCode::io, "{}: cannot sync: {}", target.string(), aot_reason(errno));
    if (::rename(path.c_str(), target.c_str()) != 0)
      fail(ErrorCode::io, "{}: cannot rename: {}", target.string(), aot_reason(errno));
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
  const Descriptor parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0) ::fsync(parent.get());
}

std::unique_ptr<AotPlace> open_aot_folder(const fs::path& folder, std::int64_t most_bytes) {
  return std::make_unique<FolderPlace>(folder, most_bytes);
}

}  // namespace rlx
