// How the bytes of a tensor are arranged.
#pragma once

#include <cstdint>
#include <string_view>

namespace rlx {

/// plain: rows of elements or blocks, as files store them.
/// p16:   panels of 16 rows for products and for KV pages (kernels.md, 2.2); the byte layout is the
/// backend's.
enum class Layout : std::uint8_t { plain, p16 };

constexpr std::string_view name(Layout layout) { return layout == Layout::plain ? "plain" : "p16"; }

}  // namespace rlx
