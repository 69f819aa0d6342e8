#include "cli/plan/sweep.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "cli/sizes.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

absl::Status Refused(const std::string& sweep, const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("--sweep is \"", sweep, "\"; it must be ", allowed));
}

// The numbers of "8..1024", doubling, or of "8,64".
absl::StatusOr<std::vector<std::uint64_t>> Values(
    const std::string& text, absl::StatusOr<std::uint64_t> (*parse)(std::string_view)) {
  std::vector<std::uint64_t> values;
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) {
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const auto value = parse(std::string(part));
      if (!value.ok()) {
        return value.status();
      }
      values.push_back(*value);
    }
    return values;
  }
  const auto first = parse(text.substr(0, dots));
  const auto last = parse(text.substr(dots + 2));
  if (!first.ok() || !last.ok()) {
    return first.ok() ? last.status() : first.status();
  }
  if (*first == 0 || *first > *last) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not an ascending range from more than 0"));
  }
  return SteppedRange(*first, *last, 2);
}

absl::StatusOr<std::uint64_t> ParseRanks(std::string_view text) {
  const auto ranks = daemon::ParseInteger(text, 1, 1 << 24);
  return ranks.ok() ? absl::StatusOr<std::uint64_t>(static_cast<std::uint64_t>(*ranks))
                    : ranks.status();
}

}  // namespace

absl::StatusOr<Sweep> SweepOf(const PlanFlags& flags) {
  const std::vector<std::string> parts = absl::StrSplit(flags.sweep, absl::MaxSplits('=', 1));
  const std::string& option = parts.front();
  if (parts.size() != 2 || (option != "ranks" && option != "bytes" && option != "bandwidth")) {
    return Refused(flags.sweep,
                   "ranks=8..1024, bytes=1MiB..1GiB, bandwidth=10Gbps..400Gbps, or a list such as "
                   "ranks=8,64");
  }
  const auto values = Values(parts[1],
                             option == "ranks"   ? &ParseRanks
                             : option == "bytes" ? &daemon::ParseBytes
                                                 : &daemon::ParseBitRate);
  if (!values.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--sweep: ", std::string(values.status().message())));
  }
  if (values->size() > kMostValues) {
    return Refused(flags.sweep, absl::StrCat("at most ", kMostValues, " values"));
  }
  Sweep sweep = {option, {}};
  for (const std::uint64_t value : *values) {
    PlanFlags one = flags;
    SweepPoint point = {.x = static_cast<double>(value)};
    if (option == "ranks") {
      one.ranks = static_cast<std::uint32_t>(value);
      point.value = absl::StrCat(value);
    } else if (option == "bytes") {
      one.bytes = point.value = daemon::FormatBytes(value);
      one.params.clear();
    } else {
      one.bandwidth = point.value = daemon::FormatBitRate(value);
    }
    const auto request = RequestOf(one);
    if (!request.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sweep at ", point.value, ": ", std::string(request.status().message())));
    }
    point.request = *request;
    sweep.points.push_back(std::move(point));
  }
  return sweep;
}

}  // namespace maypole::cli
