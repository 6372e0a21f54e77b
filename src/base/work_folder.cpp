#include "base/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// A descriptor of a folder, locked while its process lives; -1: another process has it.
int lock_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st {};
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &st) == 0 && st.st_nlink > 0 &&
      st.st_uid == ::geteuid())
    return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

constexpr const char* kMarker = ".rlx-work";

void remove_leftovers(const fs::path& parent, std::string_view prefix) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator e(parent, error), end; !error && e != end; e.increment(error))
    if (std::error_code absent; e->path().filename().native().starts_with(prefix) &&
                                fs::is_regular_file(fs::symlink_status(e->path() / kMarker, absent)))
      left.push_back(e->path());
  for (const fs::path& folder : left)
    if (const int fd = lock_folder(folder); fd >= 0) {
      fs::remove_all(folder, error);
      ::close(fd);
    }
}

}  // namespace

WorkFolder::WorkFolder(const fs::path& parent, std::string_view prefix) {
  remove_leftovers(parent, prefix);
  std::string name = (parent / prefix).string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr)
    fail(ErrorCode::io, "{}: cannot make a folder: {}", parent.string(), std::strerror(errno));
  path_ = name;
  lock_ = lock_folder(path_);
  // Only now, locked, it may be known for what it is.
  const int marker = lock_ < 0 ? -1 : ::openat(lock_, kMarker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (marker < 0) {
    const int error = errno;
    if (lock_ >= 0) ::close(lock_);
    ::rmdir(path_.c_str());
    fail(ErrorCode::io, "{}: cannot write: {}", path_.string(), std::strerror(error));
  }
  ::close(marker);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

}  // namespace rlx
