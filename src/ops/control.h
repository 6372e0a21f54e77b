// Control flow: ops whose attributes are sub-graphs. A sub-graph has inputs and constants as its only sources; it sees
// nothing of the graph around it but what the op passes, and the same symbols.
#pragma once

#include "ir/op.h"

namespace rlx {

/// One of two sub-graphs. condition: boolean[] or boolean[1]; the other operands are the inputs of both sub-graphs, in
/// order, and the outputs of the one that runs are the results. Both give the same shapes.
struct If {
  GraphRef then_graph, else_graph;
  static constexpr std::string_view name = "if";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) {
    return std::tuple{field("then", &If::then_graph), field("else", &If::else_graph)};
  }
  bool operator==(const If&) const = default;
  void infer(InferContext&) const;
  std::vector<Tensor> control(const ControlArgs&) const;
};

/// values = body(values) as long as condition(values) gives true. The operands are the first values, the results the
/// last ones; shapes stay. Running the body more than `limit` times is an Error(limit): a loop without an end.
struct While {
  GraphRef condition, body;
  std::int64_t limit = std::int64_t{1} << 30;
  static constexpr std::string_view name = "while";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) {
    return std::tuple{field("condition", &While::condition), field("body", &While::body),
                      field("limit", &While::limit)};
  }
  bool operator==(const While&) const = default;
  void infer(InferContext&) const;
  std::vector<Tensor> control(const ControlArgs&) const;
};

/// A loop of known length, as Scan of ONNX (https://onnx.ai/onnx/operators/onnx__Scan.html) with all axes 0.
/// Operands: `carried` values; `scanned` arrays [length, ...] without blocks; the rest as they are in each iteration.
/// Inputs of the body: the carried values, element t of each array, the rest. Outputs of the body: the next carried
/// values, then elements. Results: the last carried values, then arrays [length, ...] of those elements. `reverse`
/// runs t from length - 1 to 0, for what is read and what is written.
struct Scan {
  GraphRef body;
  std::int32_t carried = 0, scanned = 0;
  Dim length;
  bool reverse = false;
  static constexpr std::string_view name = "scan";
  static constexpr Trait traits = Trait::none;
  static constexpr auto fields(auto...) {
    return std::tuple{field("body", &Scan::body), field("carried", &Scan::carried), field("scanned", &Scan::scanned),
                      field("length", &Scan::length), field("reverse", &Scan::reverse)};
  }
  bool operator==(const Scan&) const = default;
  void infer(InferContext&) const;
  std::vector<Tensor> control(const ControlArgs&) const;
};

using ControlOps = OpList<If, While, Scan>;

}  // namespace rlx
