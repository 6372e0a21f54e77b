// 128-bit digests (XXH3, https://xxhash.com) for cache keys and cheap 64-bit hashes for tables.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

/// 128-bit digest of a canonical serialisation. Equal in every process and on every machine.
struct Digest {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const Digest&) const = default;
  std::string hex() const;  ///< 32 lower-case hexadecimal digits
};

Digest digest(std::span<const std::byte> bytes);
Digest digest(std::string_view bytes);
std::uint64_t hash64(std::string_view bytes);

}  // namespace rlx
