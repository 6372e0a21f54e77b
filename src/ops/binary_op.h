// Shared by elementwise.h and arithmetic.h: an op of two operands without attributes.
#pragma once

#include "ir/op.h"

#define RLX_BINARY_OP(Type, op_name, more_traits)                                       \
  struct Type {                                                                         \
    static constexpr std::string_view name = op_name;                                   \
    static constexpr Trait traits = Trait::elementwise | Trait::row_wise | more_traits; \
    static constexpr std::array<std::string_view, 2> operands = {"a", "b"};             \
    static constexpr int in_place = 0;                                                  \
    static constexpr auto fields(auto...) { return std::tuple{}; }                             \
    bool operator==(const Type&) const = default;                                       \
    void infer(InferContext&) const;                                                    \
    void grad(GradContext&) const;                                                      \
    void reference(const KernelArgs&) const;                                            \
    static std::vector<Sample> samples();                                               \
  }
