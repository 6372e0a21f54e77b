#include "backends/cpu/kv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kv_layout.h"
#include "base/error.h"
#include "tensor/quant/codec.h"

namespace rlx::cpu {
namespace {

std::uint16_t load16(const std::byte* at) {
  std::uint16_t bits;
  std::memcpy(&bits, at, 2);
  return bits;
}
void store16(std::byte* at, std::uint16_t bits) { std::memcpy(at, &bits, 2); }

void store_float(DType dtype, std::byte* at, float x) {
  if (dtype == DType::f32)
    std::memcpy(at, &x, 4);
  else
    store16(at, dtype == DType::f16 ? f32_to_f16(x) : f32_to_bf16(x));
}

float load_float(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) {
    float x;
    std::memcpy(&x, at, 4);
    return x;
  }
  return dtype == DType::f16 ? f16_to_f32(load16(at)) : bf16_to_f32(load16(at));
}

// One group of 32 to int8; the formula is that of the append kernel (kv.simd.cpp).
struct Group {
  float d;
  std::int8_t q[kKvGroup];
};
Group quantize(const float* x) {
  Group g{};
  float most = 0;
  bool finite = true;
  for (int i = 0; i < kKvGroup; ++i) {
    finite = finite && std::isfinite(x[i]);
    most = std::max(most, std::fabs(x[i]));
  }
  if (!finite) {
    g.d = std::numeric_limits<float>::quiet_NaN();
    return g;
  }
  if (most == 0) return g;
  g.d = most / 127.0f;
  const float up = most < 1e-36f ? 0x1p96f : 1.0f;  // as in quantize_group: 127 / most must not overflow
  const float scale = 127.0f / (most * up);
  for (int i = 0; i < kKvGroup; ++i) g.q[i] = static_cast<std::int8_t>(std::lrintf(x[i] * up * scale));
  return g;
}

void store_q8(const KvPage& page, std::int64_t token, const float* row, bool key) {
  for (std::int64_t g = 0; g < page.head_dim / kKvGroup; ++g) {
    const Group group = quantize(row + g * kKvGroup);
    std::byte* base = key ? page.k : page.v;
    store16(base + (key ? k_scale_offset(page.head_dim, token, g) : v_scale_offset(page.head_dim, token, g)),
            f32_to_f16(group.d));
    for (int i = 0; i < kKvGroup; ++i) {
      const std::int64_t lane = g * kKvGroup + i;
      base[key ? k_offset(page.dtype, page.head_dim, token, lane) : v_offset(page.dtype, page.head_dim, token, lane)] =
          static_cast<std::byte>(group.q[i]);
    }
  }
}

float load_q8(const KvPage& page, std::int64_t token, std::int64_t lane, bool key) {
  const std::byte* base = key ? page.k : page.v;
  const std::int64_t g = lane / kKvGroup;
  const std::int64_t scale = key ? k_scale_offset(page.head_dim, token, g) : v_scale_offset(page.head_dim, token, g);
  const std::int64_t at = key ? k_offset(page.dtype, page.head_dim, token, lane)
      : v_offset(page.dtype, page.head_dim, token, lane);
  return static_cast<float>(static_cast<std::int8_t>(base[at])) * f16_to_f32(load16(base + scale));
}

}  // namespace

bool kv_supported(DType dtype, std::int64_t head_dim) {
  if (head_dim <= 0 || head_dim > 512) return false;
  if (dtype == DType::q8_0) return head_dim % kKvGroup == 0;
  return head_dim % 8 == 0 && (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16);
}

KvPageBytes kv_page_bytes(DType dtype, std::int64_t head_dim) {
  if (!kv_supported(dtype, head_dim))
    fail(ErrorCode::unsupported,
         "KV cache of dtype {} with head size {}: expected f32, f16 or bf16 with a multiple of 8, "
         "or q8_0 with a multiple of 32, at most 512",
         name(dtype), head_dim);
  return {k_head_bytes(dtype, head_dim), v_head_bytes(dtype, head_dim)};
}

void kv_store_rows(const KvPage& page, std::int64_t first, std::int64_t count, const float* k, const float* v) {
  RLX_CHECK(first >= 0 && count >= 0 && first + count <= kPageTokens && kv_supported(page.dtype, page.head_dim));
  for (std::int64_t t = 0; t < count; ++t) {
    const float* key = k + t * page.head_dim;
    const float* value = v + t * page.head_dim;
    if (page.dtype == DType::q8_0) {
      store_q8(page, first + t, key, true);
      store_q8(page, first + t, value, false);
      continue;
    }
    for (std::int64_t i = 0; i < page.head_dim; ++i) {
      store_float(page.dtype, page.k + k_offset(page.dtype, page.head_dim, first + t, i), key[i]);
      store_float(page.dtype, page.v + v_offset(page.dtype, page.head_dim, first + t, i), value[i]);
    }
  }
}

void kv_load_rows(const KvPage& page, std::int64_t first, std::int64_t count, float* k, float* v) {
  RLX_CHECK(first >= 0 && count >= 0 && first + count <= kPageTokens && kv_supported(page.dtype, page.head_dim));
  const bool q8 = page.dtype == DType::q8_0;
  for (std::int64_t t = 0; t < count; ++t)
    for (std::int64_t i = 0; i < page.head_dim; ++i) {
      const std::int64_t token = first + t, at = t * page.head_dim + i;
      const std::byte* key = page.k + k_offset(page.dtype, page.head_dim, token, i);
      const std::byte* value = page.v + v_offset(page.dtype, page.head_dim, token, i);
      k[at] = q8 ? load_q8(page, token, i, true) : load_float(page.dtype, key);
      v[at] = q8 ? load_q8(page, token, i, false) : load_float(page.dtype, value);
    }
}

bool accepts_kv_append(const KernelQuery& q) {
  const Shape& cache = q.in[0];
  if (cache.kind != ShapeKind::kv || cache.layout != Layout::p16) return false;
  const auto head_dim = cache.dim(1).constant();
  return head_dim && kv_supported(cache.dtype, *head_dim) && q.in[1].dtype == DType::f32 && q.in[2].dtype == DType::f32;
}

}  // namespace rlx::cpu
