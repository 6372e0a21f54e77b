// Which kernel each node got, and why: made by the code that lowers, so it cannot disagree with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/shared_list.h"

namespace rlx {

/// native: a kernel of the backend. common: the op's body (its primitive ops run instead), or a
/// state or primitive op under ForceCommon. rewritten: no call, since something else has done the work:
/// the weight store (packing, exchanging the axes of a param) or the compiler (constants). reference: the
/// interpreter's kernel on the host, for want of a native one. view: no work. unsupported: nothing that may
/// run: the compile ends with an error that holds the row.
enum class DispatchKind : std::uint8_t { native, common, rewritten, reference, unsupported, view };
inline constexpr int kDispatchKinds = 6;
std::string_view name(DispatchKind kind);

struct DispatchRow {
  std::string node;  ///< "%12" or the origin
  std::string op;
  DispatchKind kind = DispatchKind::native;
  std::string kernel;  ///< row name; empty where no call is made
  std::string reason;  ///< why not native: which predicate failed, or who does the work
  std::string text() const;  ///< "%12 layers.0.mlp: swiglu is common: ..."
};

struct DispatchReport {
  SharedList<DispatchRow> rows;
  std::int64_t count(DispatchKind kind) const;
  /// A table: per op and per kind, the layers by body, then the rows that are common or reference.
  std::string text() const;
  std::string json() const;  ///< [{"node", "op", "kind", "kernel", "reason"}]
};

}  // namespace rlx
