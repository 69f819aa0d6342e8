// FNV-1a, 64 bits (Fowler, Noll, Vo: http://www.isthe.com/chongo/tech/comp/fnv/): the same on every
// machine; against chance, not against malice.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

namespace maypole {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325;

// `hash`: of what comes before.
constexpr std::uint64_t Fnv1a(std::string_view bytes, std::uint64_t hash = kFnvBasis) {
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<std::uint8_t>(byte)) * 0x100000001b3;
  }
  return hash;
}

// Of an array or vector of numbers.
template <typename T>
std::uint64_t Fnv1aOf(const T& numbers, std::uint64_t hash = kFnvBasis) {
  return Fnv1a({reinterpret_cast<const char*>(std::data(numbers)),
                std::size(numbers) * sizeof(*std::data(numbers))},
               hash);
}

}  // namespace maypole
