// Rows by index.
#pragma once

#include "ir/op.h"

namespace rlx {

/// y[r] = table[tokens[r]] * scale.   table: [vocab, n] of any storage type, plain; tokens:
/// i32[rows]; y: f32[rows, n]. Ids outside the table are an error before the step runs (the session
/// checks them).
struct Embedding {
  float scale = 1.0f;
  static constexpr std::string_view name = "embedding";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 2> operands = {"table", "tokens"};
  static constexpr auto fields(auto...) { return std::tuple{field("scale", &Embedding::scale)}; }
  bool operator==(const Embedding&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

/// y[i] = x[index[i]]: the rows whose result is wanted.   x: [rows, n] f32 or xq8; index:
/// i32[out_rows]; y: [out_rows, n].
struct SelectRows {
  static constexpr std::string_view name = "select_rows";
  static constexpr Trait traits = Trait::none;
  static constexpr std::array<std::string_view, 2> operands = {"x", "index"};
  static constexpr auto fields(auto...) { return std::tuple{}; }
  bool operator==(const SelectRows&) const = default;
  void infer(InferContext&) const;
  void grad(GradContext&) const;
  void reference(const KernelArgs&) const;
  static std::vector<Sample> samples();
};

using IndexOps = OpList<Embedding, SelectRows>;

}  // namespace rlx
