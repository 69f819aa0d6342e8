// What every fuzz target defines. With clang and MAYPOLE_FUZZ the targets are libFuzzer binaries;
// else driver.cc mutates the seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace maypole::fuzz {

using Bytes = std::vector<std::uint8_t>;

// Valid inputs, from which mutations start.
std::vector<Bytes> Seeds();

template <typename Value>
Bytes BytesOf(const Value& value) {
  Bytes bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// What the code under test promises for every input.
inline void Require(bool condition, const char* promise) {
  if (!condition) {
    std::fprintf(stderr, "broken promise: %s\n", promise);
    std::abort();
  }
}

}  // namespace maypole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
