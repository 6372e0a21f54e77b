// Files made by hand, byte by byte, for tests of what readers refuse.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rlx::test {

/// Little-endian bytes, appended one field after the other.
class Bytes {
 public:
  Bytes& text(std::string_view s) {
    for (const char c : s) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  Bytes& u8(std::uint8_t v) { return number(v); }
  Bytes& u16(std::uint16_t v) { return number(v); }
  Bytes& u32(std::uint32_t v) { return number(v); }
  Bytes& u64(std::uint64_t v) { return number(v); }
  Bytes& f32(float v) { return number(v); }
  /// 64-bit length, then the bytes.
  Bytes& string(std::string_view s) { return u64(s.size()).text(s); }
  Bytes& zeros(std::size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }
  Bytes& pad(std::size_t alignment) {
    return zeros((alignment - bytes_.size() % alignment) % alignment);
  }

  std::span<const std::byte> span() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

 private:
  template <typename T>
  Bytes& number(T v) {
    // Byte by byte: g++ 12 sees an overflow in vector's own range insert that is not there.
    const auto* p = reinterpret_cast<const std::byte*>(&v);
    for (std::size_t i = 0; i < sizeof v; ++i) bytes_.push_back(p[i]);
    return *this;
  }

  std::vector<std::byte> bytes_;
};

/// A file that a reader must refuse: what is wrong with it, and a part of the message.
struct BadFile {
  std::string what;
  Bytes bytes;
  std::string message;
};

}  // namespace rlx::test
