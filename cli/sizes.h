// Lists of sizes and shapes of clusters as people write them on a command line: pure parsers,
// beside those of daemon/parse.h. A refusal quotes the text and says what is allowed; the caller
// adds the option's name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

namespace maypole::cli {

// "4KiB..256MiB" (from the first to the last, each `step` times the one before), "1MiB,25MiB", or
// one size.
absl::StatusOr<std::vector<std::uint64_t>> ParseByteList(const std::string& text,
                                                         std::uint32_t step);

struct ClusterShape {
  std::uint32_t nodes = 1;
  std::uint32_t ranks_per_node = 1;
};

// "4x2": nodes x ranks per node.
absl::StatusOr<ClusterShape> ParseClusterShape(const std::string& text);

}  // namespace maypole::cli
