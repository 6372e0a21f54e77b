// Weights without a meaning, for speed measurements without a download: the same in every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace rlx {

/// splitmix64 (https://prng.di.unimi.it/splitmix64.c).
class RandomWords {
 public:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_ = 0;
};

/// A type of matrices by the name of --type. Error(usage) that lists them.
DType random_type(std::string_view name);
/// What files of a type use for rows that the type's blocks do not divide, as GGUF files do (q4_K to q5_0, ...).
/// Error(unsupported): there is none.
DType random_type_for(DType wanted, std::int64_t row);
/// The bytes of a matrix, values near 0.02. Rows are multiples of the type's block.
std::vector<std::byte> random_matrix(DType type, std::int64_t rows, std::int64_t columns, RandomWords& random);
/// Error(memory) when making `bytes` of weights for the model `name` needs more than there is.
void check_random_memory(std::string_view name, DType type, double bytes);

}  // namespace rlx
