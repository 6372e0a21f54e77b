#include "runtime/artefact.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWorkFolder = ".rlx-compile-";

// A descriptor of a folder, locked while its process lives; -1: another process has it.
int lock_folder(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat st {};
  if (fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &st) == 0 && st.st_nlink > 0) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// What killed processes left beside the result: folders that nobody holds locked.
void remove_leftovers(const fs::path& parent) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator e(parent, error), end; !error && e != end; e.increment(error))
    if (e->path().filename().native().starts_with(kWorkFolder)) left.push_back(e->path());
  for (const fs::path& folder : left)
    if (const int fd = lock_folder(folder); fd >= 0) {
      fs::remove_all(folder, error);
      ::close(fd);
    }
}

// A folder of its own beside the result, so that the files can be joined without a second disk.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& beside) {
    const fs::path parent = beside.has_parent_path() ? beside.parent_path() : fs::path(".");
    remove_leftovers(parent);
    // Another process may take a folder for a leftover between its making and its lock.
    for (int tries = 0; tries < 100 && lock_ < 0; ++tries) {
      std::string name = (parent / kWorkFolder).string() + "XXXXXX";
      if (::mkdtemp(name.data()) == nullptr)
        fail(ErrorCode::io, "{}: cannot write beside it: {}", beside.string(), std::strerror(errno));
      path_ = name;
      lock_ = lock_folder(path_);
    }
    if (lock_ < 0) fail(ErrorCode::io, "{}: cannot keep a folder beside it", beside.string());
  }
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    ::close(lock_);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  int lock_ = -1;
};

// The mode of an ordinary file, but for others' right to write: such a file would not be read (aot_image.cpp).
void share_file(const fs::path& file) {
  if (::chmod(file.c_str(), mode_of_new_files() & ~mode_t{022}) != 0)
    fail(ErrorCode::io, "{}: cannot set the mode: {}", file.string(), std::strerror(errno));
}

}  // namespace

ArtefactInfo write_artefact(const fs::path& model, const fs::path& file, const DecoderOptions& options) {
  BuildOptions build;
  build.context = options.context;
  LoadedModel loaded = load_model(model, build);
  require_decoder(loaded);
  const WorkFolder work(file);
  std::string trouble;
  AotOptions cache_options;
  cache_options.folder = work.path();
  cache_options.most_bytes = INT64_MAX;
  cache_options.warn = [&](const std::string& text) { trouble = text; };
  ArtefactInfo info;
  {
    DecoderOptions with = options;
    with.aot = std::make_shared<AotCache>(cache_options);
    // A session that makes no step: its program and its packed weights are what later ones start from.
    const Decoder decoder(std::move(loaded), with);
    with.aot->flush();
    const auto& rows = decoder.dispatch().rows;
    info.calls = std::count_if(rows.begin(), rows.end(), [](const DispatchRow& r) { return !r.kernel.empty(); });
    info.packed_tensors = decoder.stats().packed_tensors;
    info.packed_bytes = decoder.stats().weight_bytes;
  }
  if (!trouble.empty()) fail(ErrorCode::io, "{}: {}", file.string(), trouble);
  write_aot_bundle(work.path(), fs::absolute(model).lexically_normal().string(), file);
  share_file(file);
  info.file_bytes = static_cast<std::int64_t>(fs::file_size(file));
  return info;
}

fs::path resolve_artefact(const fs::path& path, DecoderOptions& options) {
  if (!is_aot_bundle(path)) return path;
  const fs::path source = aot_bundle_source(path);
  std::error_code ignored;
  fs::path found = source;
  if (!fs::exists(found, ignored)) {
    // A folder's path may end in a slash.
    const fs::path name = source.has_filename() ? source.filename() : source.parent_path().filename();
    found = (path.has_parent_path() ? path.parent_path() : fs::path(".")) / name;
  }
  if (!fs::exists(found, ignored))
    fail(ErrorCode::io, "{}: compiled from {}, which is neither there nor beside this file", path.string(),
         source.string());
  AotOptions cache_options;
  cache_options.verify_content = options.aot != nullptr && options.aot->verifies_content();
  options.aot = AotCache::of_file(path, cache_options);
  return found;
}

}  // namespace rlx
