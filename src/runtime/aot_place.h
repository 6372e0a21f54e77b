// Where artefacts lie: a folder of the user, or one file that `rlx compile` made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/aot_image.h"

namespace rlx {

/// Gives the content of a file piece by piece.
using AotContent = std::function<void(const std::function<void(std::string_view)>& write)>;

class AotPlace {
 public:
  virtual ~AotPlace() = default;
  virtual std::string text() const = 0;  ///< what messages call it
  /// nullptr: there is none of that name. Error(io): it may not be read.
  virtual std::shared_ptr<const AotReader> open(const std::string& name) const = 0;
  virtual bool writable() const = 0;
  /// Makes a file visible at once and whole. Does nothing when another process writes the same name now. Errors (io):
  /// no permission, no room.
  virtual void save(const std::string& name, const AotContent& content) = 0;
  virtual void mark_used(const std::string& name) const = 0;
};

/// A folder made for this (mode 0700) or checked: owned by this user or root, and nobody else may write it. Temporary
/// files of processes that are gone are removed. A save keeps the sum of all files at or below `most_bytes`: those used
/// longest ago go first. Errors (io): cannot be made, is no folder, or others may write it.
std::unique_ptr<AotPlace> open_aot_folder(const std::filesystem::path& folder, std::int64_t most_bytes);

/// Writes a temporary file beside `target`, syncs and renames it; readable by the owner alone. Errors (io).
void write_file_pieces(const std::filesystem::path& target, const AotContent& content);

/// The images of a bundle, read only. Errors: io; format.
std::unique_ptr<AotPlace> open_aot_bundle(const std::filesystem::path& file);
/// What a bundle says of itself: the path of the model that it was compiled from. Errors: io; format.
std::string aot_bundle_source(const std::filesystem::path& file);
/// Whether a file begins as a bundle; false for what is not there.
bool is_aot_bundle(const std::filesystem::path& file);
/// Joins the files of a folder into one bundle. Errors (io).
void write_aot_bundle(const std::filesystem::path& folder, const std::string& source,
                      const std::filesystem::path& file);

}  // namespace rlx
