// Where bytes live. A GPU address is not dereferenced by the host, so everything outside
// agent/reduce treats an address as opaque.
#pragma once

#include <cstddef>
#include <cstdint>

namespace maypole::agent {

enum class MemoryKind : std::uint8_t { kHost };  // kCuda follows with the GPU adapter

struct BufferView {
  MemoryKind kind = MemoryKind::kHost;
  std::byte* address = nullptr;
  std::uint64_t bytes = 0;

  BufferView Sub(std::uint64_t offset, std::uint64_t count) const {
    return {kind, address + offset, count};
  }
};

}  // namespace maypole::agent
