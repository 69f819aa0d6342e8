#include "collective/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/phases.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// What follows one another on the busiest path.
struct Load {
  double latencies = 0;
  double messages = 0;
  double bytes = 0;
};

Cost Make(std::uint32_t rounds, double volume, Load load, LinkModel link) {
  const auto whole_bytes = static_cast<std::uint64_t>(std::ceil(volume));
  return {.rounds = rounds,
          .bytes_sent = whole_bytes,
          .bytes_received = whole_bytes,
          .seconds = load.latencies * link.latency_seconds + load.messages * link.message_seconds +
                     load.bytes / link.bytes_per_second};
}

double SlicesIn(double bytes, double slice_bytes) {
  return std::max(1.0, std::ceil(bytes / slice_bytes));
}

// `trees` share the tensor; the busiest member passes it on `passes` times.
Cost PredictTree(double bytes,
                 double slice,
                 double trees,
                 double passes,
                 std::uint32_t members,
                 LinkModel link) {
  const auto height = static_cast<std::uint32_t>(std::bit_width(members - 1));
  const double slices = SlicesIn(bytes / trees, slice);  // of each tree
  const double first = members == 3 ? 4 : 4.0 * height - 2;
  const double messages = first + trees * passes * (slices - 1);
  return Make(2 * height,
              passes * bytes,
              {2.0 * height, messages, messages * bytes / (trees * slices)},
              link);
}

Cost PredictHalvingDoubling(double bytes, double slice, std::uint32_t members, LinkModel link) {
  const std::uint32_t core = std::bit_floor(members);
  const std::uint32_t stages = std::bit_width(core) - 1;
  const double chunk = bytes / core;
  const double folded = core != members ? core : 0;  // chunks
  const double chunks = 2.0 * (core - 1) + 2 * folded;
  const std::uint32_t rounds = 2 * stages + (folded > 0 ? 2 : 0);
  return Make(rounds,
              (chunks - folded) * chunk,
              {static_cast<double>(rounds), chunks * SlicesIn(chunk, slice), chunks * chunk},
              link);
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

// One way of a tree: down from the root, or up to it.
Cost PredictRooted(
    Algorithm algorithm, double bytes, double slice, std::uint32_t members, LinkModel link) {
  const double others = members - 1;
  const double slices = SlicesIn(bytes, slice);
  const double piece = bytes / slices;
  if (algorithm == Algorithm::kDirect) {
    return Make(1, others * bytes, {1, others * slices, others * bytes}, link);
  }
  if (algorithm == Algorithm::kRing) {
    const double messages = slices + others - 1;
    return Make(members - 1, bytes, {others, messages, messages * piece}, link);
  }
  const auto height = static_cast<std::uint32_t>(std::bit_width(members - 1));
  const double passes = members < 4 ? 1 : 2;
  const double messages = (members == 3 ? 2 : 2.0 * height - 1) + passes * (slices - 1);
  return Make(height, passes * bytes, {1.0 * height, messages, messages * piece}, link);
}

// Every member sends each other one block.
Cost PredictBlocks(
    Algorithm algorithm, double bytes, double slice, std::uint32_t members, LinkModel link) {
  const std::uint32_t others = members - 1;
  const std::uint32_t rounds = algorithm == Algorithm::kRing ? others : 1;
  const double volume = others * bytes / members;
  return Make(
      rounds, volume, {1.0 * rounds, others * SlicesIn(bytes / members, slice), volume}, link);
}

}  // namespace

Cost Predict(Collective collective,
             Algorithm algorithm,
             std::uint64_t bytes,
             std::uint32_t members,
             LinkModel link,
             std::uint64_t slice_bytes) {
  MAYPOLE_CHECK(members > 0 && link.bytes_per_second > 0 && slice_bytes > 0);
  if (members == 1) {
    return {};
  }
  const double size = static_cast<double>(bytes);
  const double slice = static_cast<double>(slice_bytes);
  switch (collective) {
    case Collective::kAllReduce:
      return PredictAllReduce(algorithm, bytes, members, link, slice_bytes);
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return PredictBlocks(algorithm, size, slice, members, link);
    case Collective::kBroadcast:
    case Collective::kReduce:
      return PredictRooted(algorithm, size, slice, members, link);
    case Collective::kSendReceive:
      return PredictRooted(algorithm, size, slice, 2, link);
    case Collective::kBarrier:
      break;
  }
  return {};
}

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
  const double slice = static_cast<double>(slice_bytes);
  const double chunked = 2.0 * others * size / members;
  const double messages = 2.0 * others * SlicesIn(size / members, slice);
  switch (algorithm) {
    case Algorithm::kDirect:
      return Make(2, chunked, {2, messages, chunked}, link);
    case Algorithm::kNaive:
      return Make(1,
                  others * size,
                  {2.0 * others, 2 * others * SlicesIn(size, slice), 2 * others * size},
                  link);
    case Algorithm::kTree:
      return PredictTree(size, slice, 1, TreeLoad(members, 3), members, link);
    case Algorithm::kDoubleTree:
      return PredictTree(size, slice, 2, TreeLoad(members, 2), members, link);
    case Algorithm::kHalvingDoubling:
      return PredictHalvingDoubling(size, slice, members, link);
    default:
      return Make(2 * others, chunked, {2.0 * others, messages, chunked}, link);
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
