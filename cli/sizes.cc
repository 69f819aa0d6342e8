#include "cli/sizes.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "daemon/parse.h"

namespace maypole::cli {
namespace {

constexpr std::int64_t kMostProcesses = 1024;

absl::StatusOr<std::vector<std::uint64_t>> Expand(const std::string& text, std::uint32_t step) {
  const absl::StatusOr<daemon::ByteRange> range = daemon::ParseByteRange(text);
  if (!range.ok()) {
    return range.status();
  }
  if (range->first == 0 || step < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'",
        text,
        "' cannot be stepped through: it must start above 0, and the step be 2 or more"));
  }
  return SteppedRange(range->first, range->last, step);
}

}  // namespace

std::vector<std::uint64_t> SteppedRange(std::uint64_t first,
                                        std::uint64_t last,
                                        std::uint64_t step) {
  std::vector<std::uint64_t> values = {first};
  while (values.back() <= (last - 1) / step) {  // as the product is less than the last
    values.push_back(values.back() * step);
  }
  if (values.back() < last) {
    values.push_back(last);
  }
  return values;
}

absl::StatusOr<std::vector<std::uint64_t>> ParseByteList(const std::string& text,
                                                         std::uint32_t step) {
  if (text.find("..") != std::string::npos) {
    return Expand(text, step);
  }
  std::vector<std::uint64_t> sizes;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::StatusOr<std::uint64_t> bytes = daemon::ParseBytes(std::string(part));
    if (!bytes.ok()) {
      return bytes.status();
    }
    sizes.push_back(*bytes);
  }
  if (sizes.size() > kMostValues) {
    return absl::InvalidArgumentError(
        absl::StrCat(sizes.size(), " sizes are too many: give at most ", kMostValues));
  }
  return sizes;
}

absl::StatusOr<ClusterShape> ParseClusterShape(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not NODESxRANKS, e.g. 4x2: 4 nodes of 2 ranks each"));
  }
  const absl::StatusOr<std::int64_t> nodes = daemon::ParseInteger(parts[0], 1, kMostProcesses);
  const absl::StatusOr<std::int64_t> ranks = daemon::ParseInteger(parts[1], 1, kMostProcesses);
  if (!nodes.ok() || !ranks.ok()) {
    return nodes.ok() ? ranks.status() : nodes.status();
  }
  return ClusterShape{static_cast<std::uint32_t>(*nodes), static_cast<std::uint32_t>(*ranks)};
}

}  // namespace maypole::cli
