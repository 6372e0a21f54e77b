// The program's version.
#pragma once

#include <string>

namespace rlx::cli {

/// "rlx 0.1.0 (g++ 12.2.0)".
std::string version_text();
std::string version_number();
std::string compiler_text();

}  // namespace rlx::cli
