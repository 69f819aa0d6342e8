// How the algorithms scale, by the simulator: what docs/scale.md reports. Pure and deterministic.
//
// An element is one byte here, so that 4 KiB can be cut among 4,096 members.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collective/network.h"
#include "collective/schedule.h"

namespace maypole::scale {

enum class Kind : std::uint8_t { kStar, kFatTree, kRails, kSlow };

inline constexpr Kind kKinds[] = {Kind::kStar, Kind::kFatTree, Kind::kRails, Kind::kSlow};

std::string Name(Kind kind);

// One sentence for the report.
std::string Description(Kind kind);

collective::Network MakeNetwork(Kind kind, std::uint32_t members);

// One size on one network.
struct Cell {
  std::uint32_t members = 0;
  std::uint64_t bytes = 0;
  double bound_seconds = 0;  // max(2N(P-1)/(P b), ceil(log2 P) a); a slow member needs N / its rate
  std::vector<std::pair<collective::Algorithm, double>> seconds;
  collective::Algorithm chosen = collective::Algorithm::kRing;  // by the tuning table
  double chosen_seconds = 0;

  // Of all algorithms, the chosen one with its own slices included.
  double BestSeconds() const;
};

Cell Measure(Kind kind, std::uint32_t members, std::uint64_t bytes);

// Beyond kSimulatedSlices slices a tree goes on at the pace of the last half of so many, as its
// slices follow one another evenly; all others are simulated whole.
inline constexpr std::uint64_t kSimulatedSlices = 256;

double SimulatedSeconds(Kind kind,
                        std::uint32_t members,
                        std::uint64_t bytes,
                        collective::Algorithm algorithm,
                        std::uint64_t slice_bytes);

// The cell's line in the report's table.
std::string Line(const Cell& cell);

std::string TableHead();

}  // namespace maypole::scale
