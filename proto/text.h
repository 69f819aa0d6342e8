// Text that crosses a process boundary: names that clients choose, and sentences in fields of fixed
// size. Used by the client and by the agent, so that both refuse the same names. Names reach logs,
// JSON and Protocol Buffers, hence printable UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace maypole {

// Bytes of the well-formed UTF-8 character at the start of `text` (RFC 3629: shortest form, no
// surrogates); 0 if there is none.
constexpr std::size_t Utf8CharacterBytes(std::string_view text) {
  const auto at = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = at(0);
  const std::size_t bytes = text.empty() || first == 0 ? 0
                            : first < 0x80             ? 1
                            : first < 0xc2             ? 0
                            : first < 0xe0             ? 2
                            : first < 0xf0             ? 3
                            : first < 0xf5             ? 4
                                                       : 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  const unsigned second = at(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return overlong || beyond ? 0 : bytes;
}

// Well-formed UTF-8 without control characters. Empty text is.
constexpr bool IsPrintableUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = Utf8CharacterBytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (bytes == 0 || first < 0x20 || first == 0x7f) {
      return false;
    }
    text.remove_prefix(bytes);
  }
  return true;
}

// The longest prefix of at most `bytes_max` bytes that does not end within a character.
constexpr std::string_view CutUtf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return text;
  }
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

// Copies as much of `text` as fits; the rest of the field becomes zero. Returns the bytes of text
// stored.
template <std::size_t N>
std::size_t StoreText(char (&field)[N], std::string_view text) {
  const std::string_view cut = CutUtf8(text, N);
  std::memset(field, 0, N);
  if (!cut.empty()) {
    std::memcpy(field, cut.data(), cut.size());
  }
  return cut.size();
}

// What a field holds, whatever length the other side claims.
template <std::size_t N>
std::string_view LoadText(const char (&field)[N], std::size_t bytes) {
  return {field, std::min(bytes, N)};
}

// What a field holds up to its first zero, terminated or not.
template <std::size_t N>
std::string_view LoadTerminated(const char (&field)[N]) {
  return {field, ::strnlen(field, N)};
}

}  // namespace maypole
