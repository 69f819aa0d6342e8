// Values as people write them in flags, variables and files.
//
// Pure. Every error is kInvalidArgument, quotes the text and says which form is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/time.h"

namespace maypole::daemon {

// "4096", "64KiB", "25MB", "1.5GiB": K, M, G, T by 1000 ("kB") or by 1024 ("KiB"); letters in any
// case, but for "Gb" and its like, which mean bits.
absl::StatusOr<std::uint64_t> ParseBytes(std::string_view text);

// "5us", "250ms", "3s", "1.5min", "2h"; a bare "0" too. Never negative.
absl::StatusOr<Duration> ParseDuration(std::string_view text);

// Bits per second: "25Gbps", "100Mbit", "1gbit/s", "64kbps", also with one space before the unit,
// as rates are printed. Never zero, and never with a B, which means bytes.
absl::StatusOr<std::uint64_t> ParseBitRate(std::string_view text);

// A whole number in [min, max].
absl::StatusOr<std::int64_t> ParseInteger(std::string_view text,
                                          std::int64_t min,
                                          std::int64_t max);

// "true", "false", "on", "off", "yes", "no", "1", "0".
absl::StatusOr<bool> ParseBool(std::string_view text);

struct HostPort {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

// "node-a:7700", "10.0.0.1:7700", "[fd00::1]:7700"; the port is never 0.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t last = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// "4KiB..256MiB", or one size for both ends.
absl::StatusOr<ByteRange> ParseByteRange(std::string_view text);

// The shortest form that the parsers above read back exactly: "256MiB", "3s", "25Gbps".
std::string FormatBytes(std::uint64_t bytes);
std::string FormatBitRate(std::uint64_t bits_per_second);
std::string FormatDuration(Duration duration);

}  // namespace maypole::daemon
