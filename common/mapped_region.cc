#include "common/mapped_region.h"

#include <sys/mman.h>

namespace maypole {

MappedRegion& MappedRegion::operator=(MappedRegion&& other) noexcept {
  if (this != &other) {
    Unmap();
    address_ = std::exchange(other.address_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

MappedRegion MappedRegion::Map(int fd, std::size_t bytes, MapAccess access) {
  MappedRegion region;
  const int protection = access == MapAccess::kReadOnly ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address != MAP_FAILED) {
    region.address_ = static_cast<std::byte*>(address);
    region.bytes_ = bytes;
  }
  return region;
}

void MappedRegion::Unmap() {
  if (address_ != nullptr) {
    ::munmap(address_, bytes_);
    Abandon();
  }
}

}  // namespace maypole
