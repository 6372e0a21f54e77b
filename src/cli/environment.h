// The environment variables of the program (interfaces.md, section 4).
#pragma once

#include <string>
#include <vector>

namespace rlx::cli {

/// Errors (usage): a variable with a value that is not valid; the valid ones are listed.
void check_environment();

struct EnvironmentSetting {
  std::string name, value, valid;
};
/// Every variable with its value (empty: unset) and what it takes, for `rlx doctor`.
std::vector<EnvironmentSetting> environment_settings();

}  // namespace rlx::cli
