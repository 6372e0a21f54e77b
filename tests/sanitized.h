// Whether this build runs under sanitizers: they slow code that allocates or computes by ten, and add nothing to a test
// that repeats itself or measures. Such tests do less there.
#pragma once

namespace rlx::test {

inline constexpr bool kSanitized = sizeof(RLX_TEST_SANITIZE) > 1;

}  // namespace rlx::test
