// Exit status 0 when a call into the linked library answers as it should.
#include <base/error.h>

#include <string>

int main() {
  try {
    rlx::fail(rlx::ErrorCode::usage, "{} of {}", 1, 2.5);
  } catch (const rlx::Error& error) {
    return error.what() == std::string("1 of 2.5") ? 0 : 1;
  }
}
