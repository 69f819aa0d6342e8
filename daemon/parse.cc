#include "daemon/parse.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>

#include "absl/status/status.h"

namespace maypole::daemon {
namespace {

struct Unit {
  std::string_view name;  // lower case
  std::uint64_t factor;
};

constexpr std::array kByteUnits = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"kb", 1'000},
    Unit{"kib", 1ull << 10},
    Unit{"mb", 1'000'000},
    Unit{"mib", 1ull << 20},
    Unit{"gb", 1'000'000'000},
    Unit{"gib", 1ull << 30},
    Unit{"tb", 1'000'000'000'000},
    Unit{"tib", 1ull << 40},
};
constexpr std::string_view kByteForm = "a size such as 4096, 64KiB or 25MB";

constexpr std::array kDurationUnits = {
    Unit{"ns", 1},
    Unit{"us", 1'000},
    Unit{"ms", 1'000'000},
    Unit{"s", 1'000'000'000},
    Unit{"min", 60'000'000'000},
    Unit{"h", 3'600'000'000'000},
};
constexpr std::string_view kDurationForm = "a duration such as 5us, 250ms or 3s";

constexpr std::array kBitRateUnits = {
    Unit{"bps", 1},
    Unit{"bit", 1},
    Unit{"kbps", 1'000},
    Unit{"kbit", 1'000},
    Unit{"mbps", 1'000'000},
    Unit{"mbit", 1'000'000},
    Unit{"gbps", 1'000'000'000},
    Unit{"gbit", 1'000'000'000},
    Unit{"tbps", 1'000'000'000'000},
    Unit{"tbit", 1'000'000'000'000},
};
constexpr std::string_view kBitRateForm = "a rate in bits per second such as 25Gbps or 100Mbit";

absl::Status NotA(std::string_view text, std::string_view form) {
  std::string message = "\"";
  message.append(text).append("\" is not ").append(form);
  return absl::InvalidArgumentError(message);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return lower;
}

// Whole numbers stay exact; a fraction goes through double. Empty if it does not fit 63 bits.
absl::StatusOr<std::uint64_t> Scale(std::string_view number, std::uint64_t factor) {
  constexpr std::uint64_t kMax = 1ull << 63;
  const char* end = number.data() + number.size();
  std::uint64_t whole = 0;
  if (auto [stop, error] = std::from_chars(number.data(), end, whole);
      error == std::errc() && stop == end) {
    if (whole >= kMax / factor) {
      return absl::OutOfRangeError("");
    }
    return whole * factor;
  }
  double fraction = 0;
  auto [stop, error] = std::from_chars(number.data(), end, fraction, std::chars_format::fixed);
  const double scaled = fraction * static_cast<double>(factor);
  if (error != std::errc() || stop != end || !(scaled >= 0) ||
      scaled >= static_cast<double>(kMax)) {
    return absl::OutOfRangeError("");
  }
  return static_cast<std::uint64_t>(std::llround(scaled));
}

absl::StatusOr<std::uint64_t> ParseWithUnit(std::string_view text,
                                            std::span<const Unit> units,
                                            std::string_view form) {
  const std::size_t digits = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits);
  std::string unit = Lower(text.substr(std::min(number.size(), text.size())));
  if (number.empty()) {
    return NotA(text, form);
  }
  for (const Unit& known : units) {
    if (unit == known.name) {
      absl::StatusOr<std::uint64_t> value = Scale(number, known.factor);
      return value.ok() ? value : NotA(text, form);
    }
  }
  return NotA(text, form);
}

// For a rate in bytes, without its "/s": which one in bits it is.
std::string BytesHint(std::string_view rate) {
  if (rate.ends_with("ps")) {
    rate.remove_suffix(2);
  }
  const absl::StatusOr<std::uint64_t> bytes = ParseBytes(rate);
  const bool fits = bytes.ok() && *bytes > 0 && *bytes < (1ull << 60);
  return std::string("; a capital B means bytes") +
         (fits ? ": use " + FormatBitRate(8 * *bytes) : "");
}

std::string FormatWithUnit(std::uint64_t value, std::span<const Unit> units) {
  for (const Unit& unit : units) {  // largest first
    if (value != 0 && value % unit.factor == 0) {
      return std::to_string(value / unit.factor).append(unit.name);
    }
  }
  return std::to_string(value).append(units.back().name);
}

}  // namespace

absl::StatusOr<std::uint64_t> ParseBytes(std::string_view text) {
  const bool capital =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::isupper(c) != 0; });
  if (capital && text.ends_with('b')) {
    return NotA(text, std::string(kByteForm).append("; a small b means bits"));
  }
  return ParseWithUnit(text, kByteUnits, kByteForm);
}

absl::StatusOr<Duration> ParseDuration(std::string_view text) {
  if (text == "0") {
    return Duration{0};
  }
  absl::StatusOr<std::uint64_t> value = ParseWithUnit(text, kDurationUnits, kDurationForm);
  if (!value.ok()) {
    return value.status();
  }
  return Duration(static_cast<Duration::rep>(*value));
}

absl::StatusOr<std::uint64_t> ParseBitRate(std::string_view text) {
  std::string rate(text);
  if (rate.ends_with("/s")) {
    rate.erase(rate.size() - 2);
  }
  const std::size_t space = rate.find_first_not_of("0123456789.");
  if (space != std::string::npos && space > 0 && rate[space] == ' ' &&
      rate.find_first_of("0123456789.", space) == std::string::npos) {
    rate.erase(space, 1);
  }
  if (rate.find('B') != std::string::npos) {
    return NotA(text, std::string(kBitRateForm).append(BytesHint(rate)));
  }
  absl::StatusOr<std::uint64_t> value = ParseWithUnit(rate, kBitRateUnits, kBitRateForm);
  if (!value.ok() || *value == 0) {
    return NotA(text, kBitRateForm);
  }
  return value;
}

absl::StatusOr<std::int64_t> ParseInteger(std::string_view text,
                                          std::int64_t min,
                                          std::int64_t max) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < min || value > max) {
    return NotA(text, "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return value;
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  const std::string lower = Lower(text);
  if (lower == "true" || lower == "on" || lower == "yes" || lower == "1") {
    return true;
  }
  if (lower == "false" || lower == "off" || lower == "no" || lower == "0") {
    return false;
  }
  return NotA(text, "true or false");
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  constexpr std::string_view kForm = "host:port, such as node-a:7700 or [fd00::1]:7700";
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return NotA(text, kForm);
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return NotA(text, kForm);
  }
  absl::StatusOr<std::int64_t> port = ParseInteger(text.substr(colon + 1), 1, 65535);
  if (!port.ok() || host.empty() || host.find_first_of(" \t/[]") != std::string_view::npos) {
    return NotA(text, kForm);
  }
  return HostPort{std::string(host), static_cast<std::uint16_t>(*port)};
}

absl::StatusOr<ByteRange> ParseByteRange(std::string_view text) {
  constexpr std::string_view kForm = "a size or an ascending range of sizes such as 4KiB..256MiB";
  const std::size_t dots = text.find("..");
  const std::string_view last_text = dots == std::string_view::npos ? text : text.substr(dots + 2);
  absl::StatusOr<std::uint64_t> first = ParseBytes(text.substr(0, dots));
  absl::StatusOr<std::uint64_t> last = ParseBytes(last_text);
  if (!first.ok() || !last.ok() || *first > *last) {
    return NotA(text, kForm);
  }
  return ByteRange{*first, *last};
}

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array kUnits = {Unit{"TiB", 1ull << 40},
                                 Unit{"GiB", 1ull << 30},
                                 Unit{"MiB", 1ull << 20},
                                 Unit{"KiB", 1ull << 10},
                                 Unit{"", 1}};
  return FormatWithUnit(bytes, kUnits);
}

std::string FormatBitRate(std::uint64_t bits_per_second) {
  constexpr std::array kUnits = {Unit{"Tbps", 1'000'000'000'000},
                                 Unit{"Gbps", 1'000'000'000},
                                 Unit{"Mbps", 1'000'000},
                                 Unit{"kbps", 1'000},
                                 Unit{"bps", 1}};
  return FormatWithUnit(bits_per_second, kUnits);
}

std::string FormatDuration(Duration duration) {
  constexpr std::array kUnits = {
      Unit{"s", 1'000'000'000}, Unit{"ms", 1'000'000}, Unit{"us", 1'000}, Unit{"ns", 1}};
  return FormatWithUnit(static_cast<std::uint64_t>(duration.count()), kUnits);
}

}  // namespace maypole::daemon
