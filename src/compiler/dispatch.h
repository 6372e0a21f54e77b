// Which kernel each node got, and why: made by the code that lowers, so it cannot disagree with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/shared_list.h"

namespace rlx {

/// native: a kernel of the backend. common: the op's body (its primitive ops run instead), or a
/// state or primitive op under ForceCommon. reference: the interpreter's kernel on the host, for
/// want of a native one. view: no work.
enum class DispatchKind : std::uint8_t { native, common, reference, view };
std::string_view name(DispatchKind kind);

struct DispatchRow {
  std::string node;  ///< "%12" or the origin
  std::string op;
  DispatchKind kind = DispatchKind::native;
  std::string kernel;  ///< row name; empty for views
  std::string reason;  ///< why not native: which predicate failed
};

struct DispatchReport {
  SharedList<DispatchRow> rows;
  std::int64_t count(DispatchKind kind) const;
  std::string text() const;  ///< a table: per op and per kind, the layers by body, then the rows that are not native
  std::string json() const;  ///< [{"node", "op", "kind", "kernel", "reason"}]
};

}  // namespace rlx
