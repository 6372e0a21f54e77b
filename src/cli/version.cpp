#include "cli/version.h"

#include <fmt/format.h>

// The build gives the project's version; a hand-made compile has none.
#ifndef RLX_VERSION
#define RLX_VERSION "unknown"
#endif

namespace rlx::cli {

std::string version_number() { return RLX_VERSION; }

std::string compiler_text() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string version_text() { return fmt::format("rlx {} ({})", version_number(), compiler_text()); }

}  // namespace rlx::cli
