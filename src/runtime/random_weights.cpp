#include "runtime/random_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/cpu_features.h"
#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx {
namespace {

// Where the f16 scales of a block stand, and values that keep the weights near 0.02.
struct Scale {
  DType type;
  std::size_t at;
  float value;
};
constexpr Scale kScales[] = {
    {DType::q4_0, 0, 4e-3f},     {DType::q4_1, 0, 4e-3f},  {DType::q4_1, 2, -3e-2f},
    {DType::q5_0, 0, 2e-3f},     {DType::q5_1, 0, 2e-3f},  {DType::q5_1, 2, -3e-2f},
    {DType::q8_0, 0, 2.5e-4f},   {DType::q2_K, 80, 2e-3f}, {DType::q2_K, 82, 3e-3f},
    {DType::q3_K, 108, 4e-4f},   {DType::q4_K, 0, 8e-5f},  {DType::q4_K, 2, 6e-4f},
    {DType::q5_K, 0, 4e-5f},     {DType::q5_K, 2, 6e-4f},  {DType::q6_K, 208, 1e-5f},
    {DType::iq4_nl, 0, 2.5e-4f},
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
    const std::uint16_t bits = f32_to_f16(s.value);
    for (std::size_t at = 0; at + block <= out.size(); at += block)
      std::memcpy(out.data() + at + s.at, &bits, 2);
  }
}

}  // namespace

DType random_type(std::string_view text) {
  const std::optional<DType> type = dtype_from_name(text);
  const bool usable = type && (is_quantized(*type) ? *type != DType::xq8 : is_float(*type) && *type != DType::f64);
  if (!usable)
    fail(ErrorCode::unsupported,
         "--type: expected a type of matrices (f32, f16, bf16, q4_0, q8_0, q4_K, ...), found \"{}\"", text);
  return *type;
}

DType random_type_for(DType wanted, std::int64_t row) {
  if (row % info(wanted).block_elements == 0) return wanted;
  switch (wanted) {
    case DType::q2_K:
    case DType::q3_K:
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
