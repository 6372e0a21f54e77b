// Element types: plain numbers and the block formats of GGUF files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// Element type of a tensor. Block formats store `block_elements` values of a row together in
/// `block_bytes` bytes (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); xq8 is the int8
/// form of activations (see below).
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_K,
  q3_K,
  q4_K,
  q5_K,
  q6_K,
  iq4_nl,
  iq4_xs,
  iq3_xxs,
  iq3_s,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq1_s,
  iq1_m,
  tq1_0,
  tq2_0,
  mxfp4,
  xq8,
};

/// What is known of a DType; one row per value of the enumeration.
struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as printed and parsed: "f32", "q4_K"
  int block_elements;     ///< values per block, 1 for plain types
  int block_bytes;        ///< bytes per block
  int gguf_id;            ///< ggml_type of the GGUF format, -1 when the format has none
  bool is_float;          ///< f16, bf16, f32, f64
  bool is_quantized;      ///< a block format
};

// xq8: activations in int8 groups of 32 along the row (kernels.md, 2.3). A row of n values (n a
// multiple of 32) is three planes one after the other: int8 q[n]; float d[n/32]; int32 sum[n/16],
// the plain sums of q over 16 values. value = q * d; 44 bytes per 32 values.

const DTypeInfo& info(DType dtype);
std::span<const DTypeInfo> all_dtypes();
std::string_view name(DType dtype);

/// The dtype of a name, in any case ("q4_k", "Q4_K", "F16"); nothing when unknown.
std::optional<DType> dtype_from_name(std::string_view name);

/// The dtype of a GGUF type id; nothing when the id is unknown or not supported.
std::optional<DType> dtype_from_gguf(std::uint32_t id);

/// Name of any GGUF type id that the format defines, supported here or not ("nvfp4"); empty when
/// unknown.
std::string_view gguf_type_name(std::uint32_t id);

/// Bytes of a row of n elements; n must be a multiple of block_elements and the result must fit
/// (RLX_CHECK).
std::int64_t row_bytes(DType dtype, std::int64_t n);

inline bool is_float(DType d) { return info(d).is_float; }
inline bool is_quantized(DType d) { return info(d).is_quantized; }

}  // namespace rlx
