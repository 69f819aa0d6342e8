// Owns one shared mapping of a file descriptor. Empty is a valid state, so that a failed mapping
// can be returned.
//
// Threads: confined to its owner; the bytes themselves are shared with another process.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace maypole {

enum class MapAccess { kReadOnly, kReadWrite };

class MappedRegion {
 public:
  MappedRegion() = default;

  MappedRegion(MappedRegion&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

  MappedRegion& operator=(MappedRegion&& other) noexcept;

  ~MappedRegion() { Unmap(); }

  // Maps [0, bytes) of `fd` (MAP_SHARED). Empty, with errno set, if the kernel refuses.
  static MappedRegion Map(int fd, std::size_t bytes, MapAccess access);

  bool valid() const { return address_ != nullptr; }

  std::byte* data() const { return address_; }

  std::size_t size() const { return bytes_; }

  std::span<std::byte> bytes() const { return {address_, bytes_}; }

  // Forgets the mapping without unmapping it (in a forked child, where it is not mapped at all).
  void Abandon() {
    address_ = nullptr;
    bytes_ = 0;
  }

 private:
  void Unmap();

  std::byte* address_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace maypole
