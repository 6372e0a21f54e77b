#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"

namespace rlx {
namespace {

constexpr std::array kTable = {
    DTypeInfo{DType::f32, "f32", 1, 4, 0, true, false},
    DTypeInfo{DType::f16, "f16", 1, 2, 1, true, false},
    DTypeInfo{DType::bf16, "bf16", 1, 2, 30, true, false},
    DTypeInfo{DType::f64, "f64", 1, 8, 28, true, false},
    DTypeInfo{DType::i8, "i8", 1, 1, 24, false, false},
    DTypeInfo{DType::i16, "i16", 1, 2, 25, false, false},
    DTypeInfo{DType::i32, "i32", 1, 4, 26, false, false},
    DTypeInfo{DType::i64, "i64", 1, 8, 27, false, false},
    DTypeInfo{DType::u8, "u8", 1, 1, -1, false, false},
    DTypeInfo{DType::u16, "u16", 1, 2, -1, false, false},
    DTypeInfo{DType::u32, "u32", 1, 4, -1, false, false},
    DTypeInfo{DType::u64, "u64", 1, 8, -1, false, false},
    DTypeInfo{DType::boolean, "boolean", 1, 1, -1, false, false},
    DTypeInfo{DType::q4_0, "q4_0", 32, 18, 2, false, true},
    DTypeInfo{DType::q4_1, "q4_1", 32, 20, 3, false, true},
    DTypeInfo{DType::q5_0, "q5_0", 32, 22, 6, false, true},
    DTypeInfo{DType::q5_1, "q5_1", 32, 24, 7, false, true},
    DTypeInfo{DType::q8_0, "q8_0", 32, 34, 8, false, true},
    DTypeInfo{DType::q2_K, "q2_K", 256, 84, 10, false, true},
    DTypeInfo{DType::q3_K, "q3_K", 256, 110, 11, false, true},
    DTypeInfo{DType::q4_K, "q4_K", 256, 144, 12, false, true},
    DTypeInfo{DType::q5_K, "q5_K", 256, 176, 13, false, true},
    DTypeInfo{DType::q6_K, "q6_K", 256, 210, 14, false, true},
    DTypeInfo{DType::iq4_nl, "iq4_nl", 32, 18, 20, false, true},
    DTypeInfo{DType::iq4_xs, "iq4_xs", 256, 136, 23, false, true},
    DTypeInfo{DType::iq3_xxs, "iq3_xxs", 256, 98, 18, false, true},
    DTypeInfo{DType::iq3_s, "iq3_s", 256, 110, 21, false, true},
    DTypeInfo{DType::iq2_xxs, "iq2_xxs", 256, 66, 16, false, true},
    DTypeInfo{DType::iq2_xs, "iq2_xs", 256, 74, 17, false, true},
    DTypeInfo{DType::iq2_s, "iq2_s", 256, 82, 22, false, true},
    DTypeInfo{DType::iq1_s, "iq1_s", 256, 50, 19, false, true},
    DTypeInfo{DType::iq1_m, "iq1_m", 256, 56, 29, false, true},
    DTypeInfo{DType::tq1_0, "tq1_0", 256, 54, 34, false, true},
    DTypeInfo{DType::tq2_0, "tq2_0", 256, 66, 35, false, true},
    DTypeInfo{DType::mxfp4, "mxfp4", 32, 17, 39, false, true},
    DTypeInfo{DType::xq8, "xq8", 32, 44, -1, false, true},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].dtype) != i) return false;
  return true;
}
static_assert(in_order(), "rows stand in the order of the enumeration");

struct GgufName {
  std::uint32_t id;
  std::string_view name;
};
// Ids that the format defines and that are not supported yet, so that errors can name them.
constexpr GgufName kOtherGguf[] = {
    {9, "q8_1"}, {15, "q8_K"}, {40, "nvfp4"}, {41, "q1_0"}, {42, "q2_0"},
};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }
std::span<const DTypeInfo> all_dtypes() { return kTable; }
std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kTable)
    if (same_ignoring_case(row.name, name)) return row.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_gguf(std::uint32_t id) {
  for (const DTypeInfo& row : kTable)
    if (row.gguf_id >= 0 && static_cast<std::uint32_t>(row.gguf_id) == id) return row.dtype;
  return std::nullopt;
}

std::string_view gguf_type_name(std::uint32_t id) {
  if (auto d = dtype_from_gguf(id)) return name(*d);
  for (const GgufName& row : kOtherGguf)
    if (row.id == id) return row.name;
  return {};
}

std::int64_t row_bytes(DType dtype, std::int64_t n) {
  const DTypeInfo& t = info(dtype);
  RLX_CHECK(n >= 0 && n % t.block_elements == 0, std::string(t.name));
  std::int64_t bytes = 0;
  RLX_CHECK(!__builtin_mul_overflow(n / t.block_elements, std::int64_t{t.block_bytes}, &bytes));
  return bytes;
}

}  // namespace rlx
