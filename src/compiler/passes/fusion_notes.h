// What a pass writes into the fusion report (compiler.md, section 6).
#pragma once

#include <string>
#include <string_view>

#include "compiler/pass.h"
#include "ir/rewrite.h"

namespace rlx {

/// The report as one pass sees it. Without a report every call does nothing, and the text of a near miss is not made.
class FusionNotes {
 public:
  FusionNotes(const PassContext& context, std::string_view pass) : report_(context.fusion), pass_(pass) {}

  /// The pass made `op` in the place of a node.
  void fused(std::string_view op, const Rewriter::Site& at) const { fused(op, at.node, at.index); }
  void fused(std::string_view op, const Node& at, std::int32_t index) const;

  /// The node has the form of the pattern but for one condition; `reason()` says which, with what was found.
  template <typename Reason>
  void missed(const Rewriter::Site& at, Reason reason) const {
    if (report_ != nullptr) add_miss(at.node, at.index, reason());
  }
  template <typename Reason>
  void missed(const Node& node, std::int32_t index, Reason reason) const {
    if (report_ != nullptr) add_miss(node, index, reason());
  }

 private:
  void add_miss(const Node& at, std::int32_t index, std::string reason) const;

  FusionReport* report_;
  std::string_view pass_;
};

/// Why a value cannot go into its reader: "q_proj has 2 readers", "linear is an output"; empty when it has one reader
/// and is no output.
std::string shared_reason(const Graph& graph, Value v);

/// The name of a node in a report: its origin, else its number.
std::string report_label(const Node& node, std::int32_t index);

}  // namespace rlx
