#include "runtime/artefact.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/work_folder.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

// The mode of an ordinary file, but for others' right to write: such a file would not be read (aot_image.cpp).
void share_file(const fs::path& file) {
  if (::chmod(file.c_str(), mode_of_new_files() & ~mode_t{022}) != 0)
    fail(ErrorCode::io, "{}: cannot set the mode: {}", file.string(), std::strerror(errno));
}

void check_place(const fs::path& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored) && !fs::is_regular_file(file, ignored))
    fail(ErrorCode::io, "{}: expected a file to write, found something else", file.string());
}

// What a process that is killed before this leaves lies in its work folder, which the next one removes.
void put_in_place(const fs::path& from, const fs::path& file) {
  check_place(file);
  if (::rename(from.c_str(), file.c_str()) != 0)
    fail(ErrorCode::io, "{}: cannot rename: {}", file.string(), std::strerror(errno));
  const int parent = ::open(file.has_parent_path() ? file.parent_path().c_str() : ".", O_RDONLY | O_DIRECTORY);
  if (parent < 0) return;
  ::fsync(parent);
  ::close(parent);
}

}  // namespace

ArtefactInfo write_artefact(const fs::path& model, const fs::path& file, const DecoderOptions& options,
                            const std::function<bool()>& cancelled) {
  const auto stop = [&] { return cancelled && cancelled(); };
  check_place(file);
  BuildOptions build;
  build.context = options.context;
  LoadedModel loaded = load_model(model, build);
  require_decoder(loaded);
  // Beside the result, so that its parts can be joined without a second disk.
  const WorkFolder work(file.has_parent_path() ? file.parent_path() : ".", ".rlx-compile-");
  std::string trouble;
  AotOptions cache_options;
  cache_options.folder = work.path();
  cache_options.most_bytes = INT64_MAX;
  cache_options.warn = [&](const std::string& text) { trouble = text; };
  ArtefactInfo info;
  if (stop()) return info;
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
  if (stop()) return info;
  const fs::path whole = work.path() / "whole";
  write_aot_bundle(work.path(), fs::absolute(model).lexically_normal().string(), whole);
  share_file(whole);
  if (stop()) return info;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(whole));
  put_in_place(whole, file);
  info.file_bytes = bytes;
  return info;
}

fs::path artefact_model(const fs::path& path) {
  if (!is_aot_bundle(path)) return path;
  const fs::path source = aot_bundle_source(path);
  std::error_code ignored;
  if (fs::exists(source, ignored)) return source;
  // A folder's path may end in a slash.
  const fs::path name = source.has_filename() ? source.filename() : source.parent_path().filename();
  fs::path beside = (path.has_parent_path() ? path.parent_path() : fs::path(".")) / name;
  if (!fs::exists(beside, ignored))
    fail(ErrorCode::io, "{}: compiled from {}, which is neither there nor beside this file", path.string(),
         source.string());
  return beside;
}

fs::path resolve_artefact(const fs::path& path, DecoderOptions& options) {
  if (!is_aot_bundle(path)) return path;
  fs::path model = artefact_model(path);
  AotOptions cache_options;
  cache_options.verify_content = options.aot != nullptr && options.aot->verifies_content();
  options.aot = AotCache::of_file(path, cache_options);
  return model;
}

}  // namespace rlx
