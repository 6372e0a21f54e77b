// The text form of a graph: one node a line, exact round trip with parse.h.
//
//   graph "llama" stage=mir
//     %0 = input "tokens" : i32[rows]
//     %1 = param "w" : q4_1[576, 576]
//     %2 = rms_norm(%0, %1) eps=1e-05 : f32[rows, 576] @"layers.0.norm"
//     %3 = constant {0.5, 1} : f32[2]
//     %4, %5 = rope_append(...) head_dim=64 : f32[rows, 576], kv<f16>[3, 64]
//   return "logits" %2
//
// Values are numbered in order; attributes at their defaults are left out; @ is the provenance. A
// constant of more than 16 values is written as its digest and its bytes in base64. Sub-graphs stand
// before the nodes, numbered by first use; each is a graph that begins with "graph @0":
//
//   graph "loop" stage=hir
//     graph @0 "body"
//       %0 = input "x" : f32[4]
//       %1 = scale(%0) factor=2 : f32[4]
//     return "x" %1
//     %0 = input "x" : f32[4]
//     ...
#pragma once

#include <string>

#include "ir/graph.h"

namespace rlx {

std::string print(const Graph& graph);
/// 128-bit identity of a graph: of its text, in which a long constant is only its digest.
Digest digest(const Graph& graph);
/// One node as it is printed, without the line end.
std::string print_node(const Graph& graph, std::int32_t node);
/// "..." with \" \\ \n \t and \xNN for other control characters.
std::string quoted(std::string_view text);

}  // namespace rlx
