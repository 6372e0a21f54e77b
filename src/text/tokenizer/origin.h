// Errors of parts that do not know which file they were read from.
#pragma once

#include <string>
#include <utility>

#include "base/error.h"

namespace rlx::tokenizer {

/// Runs `f`. An Error about the content of the file (format, unsupported) gets "`place`: " in front
/// of its message; others pass.
template <typename F>
decltype(auto) naming(const std::string& place, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::format && e.code() != ErrorCode::unsupported) throw;
    throw Error(e.code(), place + ": " + e.what());
  }
}

}  // namespace rlx::tokenizer
