// Where the ranks of a benchmark on one machine write down what they measured: a memfd that all
// map. Its writers take turns by barriers of the benchmark: a rank writes its own cell only, and
// rank 0 reads all cells after a barrier.
//
// The clock is CLOCK_MONOTONIC, which is one for all processes of a machine, network namespaces
// included.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "common/mapped_region.h"
#include "common/unique_fd.h"

namespace maypole::cli {

struct RankCell;

class Board {
 public:
  static constexpr std::uint32_t kMostIterations = 20000;

  // Makes one for `ranks`; nullptr-like (invalid) if memory is refused.
  static UniqueFd Make(std::uint32_t ranks);
  // Maps one that Make has made.
  static Board Map(int fd, std::uint32_t ranks);

  bool valid() const { return region_.valid(); }

  std::span<RankCell> cells() const;

  // Written by rank 0: how many operations come next, untimed and timed.
  std::uint64_t& warm_ups() const;
  std::uint64_t& iterations() const;

 private:
  MappedRegion region_;
  std::uint32_t ranks_ = 0;
};

struct RankCell {
  double cpu_seconds = 0;          // of the rank, in the timed operations
  double agent_cpu_seconds = 0;    // of its agent; only from the first rank of a node
  double machine_cpu_seconds = 0;  // busy time of all cores; only from rank 0
  double wire_bytes = 0;           // that its agent sent; only from the first rank of a node
  std::uint64_t is_first_of_node = 0;
  std::uint64_t wrong = 0;  // elements of the checked result
  std::array<char, 16> algorithm{};
  // End of every operation, in seconds; the first is the start of the first interval.
  std::array<double, Board::kMostIterations + 1> ends{};
};

static_assert(std::is_trivially_copyable_v<RankCell>);

}  // namespace maypole::cli
