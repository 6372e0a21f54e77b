// What a refusal says: tests assert whole messages, or the parts of them that name what was expected and found.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace rlx::test {

/// The message of the rlx::Error that `f` throws; "no error" when it throws none.
inline std::string error_text(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// The same of an error that must have this code: the test fails when it has another.
inline std::string error_text(ErrorCode code, const std::function<void()>& f) {
  return error_text([&] {
    try {
      f();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      throw;
    }
  });
}

}  // namespace rlx::test
