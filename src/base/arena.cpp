#include "base/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"

namespace rlx {

Arena::Arena(std::int64_t bytes, const char* what, bool huge_pages) : size_(bytes) {
  if (bytes == 0) return;
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  map_bytes_ = require(checked_add<std::size_t>(static_cast<std::size_t>(bytes), kHuge), what);
  map_ = ::mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map_ == MAP_FAILED) {
    map_ = nullptr;
    fail(ErrorCode::memory, "{}: cannot get {} bytes ({:.1f} MiB): {}", what, bytes,
         static_cast<double>(bytes) / (1 << 20), std::strerror(errno));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(map_);
  data_ = reinterpret_cast<std::byte*>((address + kHuge - 1) / kHuge * kHuge);
  if (huge_pages) ::madvise(data_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
}

Arena::Arena(Arena&& o) noexcept { *this = std::move(o); }

Arena& Arena::operator=(Arena&& o) noexcept {
  std::swap(map_, o.map_);
  std::swap(map_bytes_, o.map_bytes_);
  std::swap(data_, o.data_);
  std::swap(size_, o.size_);
  return *this;
}

Arena::~Arena() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

}  // namespace rlx
