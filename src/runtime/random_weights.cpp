#include "runtime/random_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/cpu_features.h"
#include "base/error.h"
#include "tensor/quant/block_scale.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

// Scales and minima that keep random blocks near 0.02.
struct Scale {
  DType type;
  float d, m;
};
constexpr Scale kScales[] = {
    {DType::q4_0, 4e-3f, 0},      {DType::q4_1, 4e-3f, -3e-2f}, {DType::q5_0, 2e-3f, 0},
    {DType::q5_1, 2e-3f, -3e-2f}, {DType::q8_0, 2.5e-4f, 0},    {DType::q2_K, 2e-3f, 3e-3f},
    {DType::q3_K, 4e-4f, 0},      {DType::q4_K, 8e-5f, 6e-4f},  {DType::q5_K, 4e-5f, 6e-4f},
    {DType::q6_K, 1e-5f, 0},      {DType::iq4_nl, 2.5e-4f, 0},  {DType::iq4_xs, 1.6e-5f, 0},
    {DType::iq3_xxs, 1.2e-4f, 0}, {DType::iq3_s, 1.2e-4f, 0},   {DType::iq2_xxs, 4e-4f, 0},
    {DType::iq2_xs, 4e-4f, 0},    {DType::iq2_s, 4e-4f, 0},     {DType::iq1_s, 2.6e-3f, 0},
    {DType::iq1_m, 2.6e-3f, 0},   {DType::tq1_0, 2.4e-2f, 0},   {DType::tq2_0, 1.6e-2f, 0},
    {DType::mxfp4, 3.9e-3f, 0},
};

// Plain floats: random sign and mantissa, and an exponent that gives 0.008 to 0.03.
void fill_floats(std::span<std::byte> out, DType type, RandomWords& random) {
  const std::size_t size = static_cast<std::size_t>(info(type).block_bytes);
  for (std::size_t at = 0; at + size <= out.size(); at += size) {
    const std::uint64_t r = random.next();
    const float value =
        (static_cast<float>(r >> 40) / (1 << 24) * 0.022f + 0.008f) * ((r & 1) != 0 ? -1.0f : 1.0f);
    if (type == DType::f32) {
      std::memcpy(out.data() + at, &value, 4);
    } else {
      const std::uint16_t bits = type == DType::f16 ? f32_to_f16(value) : f32_to_bf16(value);
      std::memcpy(out.data() + at, &bits, 2);
    }
  }
}

void fill_blocks(std::span<std::byte> out, DType type, RandomWords& random) {
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const std::uint64_t r = random.next();
    std::memcpy(out.data() + at, &r, std::min<std::size_t>(8, out.size() - at));
  }
  const auto block = static_cast<std::size_t>(info(type).block_bytes);
  for (const Scale& s : kScales) {
    if (s.type != type) continue;
    for (std::size_t at = 0; at + block <= out.size(); at += block) set_block_scale(type, out.data() + at, s.d, s.m);
  }
}

bool of_matrices(DType d) { return is_quantized(d) ? d != DType::xq8 : is_float(d) && d != DType::f64; }

std::vector<std::string_view> matrix_types() {
  std::vector<std::string_view> names;
  for (const DTypeInfo& row : all_dtypes())
    if (of_matrices(row.dtype)) names.push_back(row.name);
  return names;
}

}  // namespace

DType random_type(std::string_view text) {
  const std::optional<DType> type = dtype_from_name(text);
  if (!type || !of_matrices(*type))
    fail(ErrorCode::usage, "--type: expected a type of matrices ({}), found \"{}\"",
         fmt::join(matrix_types(), ", "), text);
  return *type;
}

DType random_type_for(DType wanted, std::int64_t row) {
  if (row % info(wanted).block_elements == 0) return wanted;
  switch (wanted) {
    case DType::tq1_0:
    case DType::tq2_0:
      return DType::q4_0;
    case DType::q2_K:
    case DType::q3_K:
    case DType::iq1_s:
    case DType::iq1_m:
    case DType::iq2_xxs:
    case DType::iq2_xs:
    case DType::iq2_s:
    case DType::iq3_xxs:
    case DType::iq3_s:
    case DType::iq4_xs:
      return DType::iq4_nl;
    case DType::q4_K:
      return DType::q5_0;
    case DType::q5_K:
      return DType::q5_1;
    case DType::q6_K:
      return DType::q8_0;
    default:
      fail(ErrorCode::unsupported, "--type {}: a row of {} values is no multiple of {}",
           name(wanted), row, info(wanted).block_elements);
  }
}

std::vector<std::byte> random_matrix(DType type, std::int64_t rows, std::int64_t columns, RandomWords& random) {
  std::vector<std::byte> data(static_cast<std::size_t>(rows * row_bytes(type, columns)));
  if (is_quantized(type))
    fill_blocks(data, type, random);
  else
    fill_floats(data, type, random);
  return data;
}

void check_random_memory(std::string_view model, DType type, double bytes) {
  if (const double free = static_cast<double>(memory_info().available); free > 0 && bytes > free)
    fail(ErrorCode::memory, "not enough memory: making {} of {} needs {:.0f} MiB, {:.0f} MiB are available", model,
         name(type), bytes / (1 << 20), free / (1 << 20));
}

}  // namespace rlx
