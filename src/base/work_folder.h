// A folder for the files of one piece of work.
#pragma once

#include <filesystem>
#include <string_view>

namespace rlx {

/// A new folder of this user alone (mode 0700), gone with its content at the end. It holds a marker and is locked while
/// its process lives, so that folders of the same prefix that a killed process left are removed when the next is made,
/// and no others.
class WorkFolder {
 public:
  /// `prefix`: of the folder's name, the same for all work of a kind. Error(io): `parent` cannot be written to.
  WorkFolder(const std::filesystem::path& parent, std::string_view prefix);
  WorkFolder(const WorkFolder&) = delete;
  ~WorkFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

}  // namespace rlx
