// Gradients by reverse mode, as a graph transformation: the result is made of ordinary ops and goes through the same
// passes, plan and kernels (Griewank and Walther, "Evaluating Derivatives", chapter 3).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rlx {

/// Adds to the builder's graph the gradients of the sum of all values of `outputs` with respect to each value of
/// `wrt`, and returns them in order: the dims and dtype of the wrt value, zeros where no output depends on it.
/// `seeds`, when given, are the gradients of the outputs (f32, their dims); otherwise ones.
/// An op without a gradient of its own is differentiated through its body.
/// Errors: unsupported (a gradient would pass through an op that has none: integer, comparison, quantise, sample,
/// sort-index and state ops; the op and the node are named); invalid_argument (an output or wrt value that is no
/// plain float; seeds that do not fit).
std::vector<Value> gradients(Builder& b, std::span<const Value> outputs, std::span<const Value> wrt,
                             std::span<const Value> seeds = {});

/// The graph with, after its own outputs, one more for each name of `wrt` (inputs or params): "grad.NAME", the
/// gradient of the sum of the outputs named. Where an output has that name already, as in a gradient of a gradient,
/// "grad." stands before it once more: "grad.grad.NAME".
/// Errors: as above; invalid_argument (an unknown name, with the nearest).
Graph grad(Graph graph, std::span<const std::string> outputs, std::span<const std::string> wrt);

}  // namespace rlx
