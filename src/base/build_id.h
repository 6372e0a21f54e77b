// What tells two builds of this library apart: part of every key of what is kept on disk.
#pragma once

#include <string>

namespace rlx {

/// Version, compiler, and the linker's build id (the note NT_GNU_BUILD_ID, a digest of the content) of the program or
/// shared library that this code is part of. A build without the note is told apart by size and time of that file.
const std::string& build_id();

}  // namespace rlx
