// How a model wants to be compiled, as plain data: flows carry it, the compiler reads and checks it
// (compiler/profile.h; compiler.md, section 11).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "ir/options.h"
#include "tensor/dtype.h"

namespace rlx {

/// A setting that is handed to a backend as it is.
using BackendValue = std::variant<bool, std::int64_t, double, std::string>;

struct CompileProfile {
  bool fusion = true;                  ///< off: only what correctness needs
  std::map<std::string, bool> passes;  ///< switches by name; a pass that is not named is on
  Precision precision;
  std::optional<QuantScheme> quant;             ///< empty: weights stay as they are stored
  std::map<std::string, BackendValue> backend;  ///< dotted names: "cpu.tile" of backend.cpu.tile
};

}  // namespace rlx
