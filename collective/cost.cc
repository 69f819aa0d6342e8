#include "collective/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/phases.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// `volume` bytes pass through the busiest link each way; `latencies` and `transfer` make the time.
Cost Make(std::uint32_t rounds, double volume, double latencies, double transfer, LinkModel link) {
  const auto whole_bytes = static_cast<std::uint64_t>(std::ceil(volume));
  return {.rounds = rounds,
          .bytes_sent = whole_bytes,
          .bytes_received = whole_bytes,
          .seconds = latencies * link.latency_seconds + transfer / link.bytes_per_second};
}

// `slices` of the tensor follow each other through each tree; a member passes on `load` times the
// tensor.
Cost PredictTree(double bytes, double slices, double load, std::uint32_t members, LinkModel link) {
  const auto height = static_cast<std::uint32_t>(std::bit_width(members - 1));
  const double volume = load * bytes;
  const double first = 4.0 * height - 2;
  const double transfer = (first + load * (slices - 1)) * bytes / slices;
  return Make(2 * height, volume, 2.0 * height, transfer, link);
}

Cost PredictHalvingDoubling(double bytes, std::uint32_t members, LinkModel link) {
  const std::uint32_t core = std::bit_floor(members);
  const std::uint32_t stages = std::bit_width(core) - 1;
  const double halved = 2.0 * (core - 1) * bytes / core;
  const bool folds = core != members;
  const std::uint32_t rounds = 2 * stages + (folds ? 2 : 0);
  return Make(rounds, halved + (folds ? bytes : 0), rounds, halved + (folds ? 2 * bytes : 0), link);
}

// How many times the tensor the busiest member passes on; `most` from four members on, as it then
// has two children.
double TreeLoad(std::uint32_t members, double most) {
  switch (members) {
    case 2:
      return 1;
    case 3:
      return (1 + most) / 2;
    default:
      return most;
  }
}

}  // namespace

Cost PredictAllReduce(Algorithm algorithm,
                      std::uint64_t bytes,
                      std::uint32_t members,
                      LinkModel link,
                      std::uint64_t slice_bytes) {
  MAYPOLE_CHECK(algorithm != Algorithm::kAuto && algorithm != Algorithm::kHierarchical);
  MAYPOLE_CHECK(members > 0 && link.bytes_per_second > 0 && slice_bytes > 0);
  if (members == 1) {
    return {};
  }
  const std::uint32_t others = members - 1;
  const double size = static_cast<double>(bytes);
  const double chunked = 2.0 * others * size / members;
  const double slices = std::max(1.0, std::ceil(size / static_cast<double>(slice_bytes)));
  switch (algorithm) {
    case Algorithm::kDirect:
      return Make(2, chunked, 2, chunked, link);
    case Algorithm::kNaive:
      return Make(1, others * size, 2 * others, 2 * others * size, link);
    case Algorithm::kTree:
      return PredictTree(size, slices, TreeLoad(members, 3), members, link);
    case Algorithm::kDoubleTree:
      return PredictTree(size, slices, TreeLoad(members, 2), members, link);
    case Algorithm::kHalvingDoubling:
      return PredictHalvingDoubling(size, members, link);
    default:
      return Make(2 * others, chunked, 2 * others, chunked, link);
  }
}

Cost PredictHierarchical(std::span<const LevelModel> levels,
                         std::uint64_t bytes,
                         std::uint64_t slice_bytes) {
  Cost total;
  for (const LevelModel& level : levels) {
    const Cost cost =
        PredictAllReduce(level.algorithm, bytes, level.members, level.link, slice_bytes);
    total.rounds += cost.rounds;
    total.bytes_sent += cost.bytes_sent;
    total.bytes_received += cost.bytes_received;
    total.seconds += cost.seconds;
    const std::uint32_t blocks = BlockCount(level.algorithm, level.members);
    bytes = (bytes + blocks - 1) / blocks;
  }
  return total;
}

double EffectiveBandwidth(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? 2.0 * static_cast<double>(bytes) / seconds : 0;
}

}  // namespace maypole::collective
