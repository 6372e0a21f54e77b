#include "base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace rlx {

std::string Digest::hex() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest digest(std::span<const std::byte> bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return {h.low64, h.high64};
}

Digest digest(std::string_view bytes) {
  return digest(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::uint64_t hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace rlx
