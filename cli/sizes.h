// Lists of sizes and shapes of clusters as people write them on a command line: pure parsers,
// beside those of daemon/parse.h. A refusal quotes the text and says what is allowed; the caller
// adds the option's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace maypole::cli {

// From the first to the last, each `step` (2 or more) times the one before; the last is always
// there. 0 < first <= last.
std::vector<std::uint64_t> SteppedRange(std::uint64_t first,
                                        std::uint64_t last,
                                        std::uint64_t step);

// More are a slip of the pen.
constexpr std::size_t kMostValues = 100;

// "4KiB..256MiB" (a SteppedRange), "1MiB,25MiB", or one size; at most kMostValues.
absl::StatusOr<std::vector<std::uint64_t>> ParseByteList(const std::string& text,
                                                         std::uint32_t step);

struct ClusterShape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
};

// "4x2": nodes x ranks per node.
absl::StatusOr<ClusterShape> ParseClusterShape(const std::string& text);

}  // namespace maypole::cli
