#include "collective/cost.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "collective/phases.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// What leaves a group of members by its uplink.
struct Crossing {
  double latencies = 0;    // that follow one another
  double group_bytes = 0;  // of all its members
  double share = 1;        // of what the busiest member sends: what it sends meanwhile
};

// What follows one another: at the busiest member, and on the way of a message through many.
struct Load {
  double latencies = 0;
  double messages = 0;
  double bytes = 0;
  double at_once = 1;  // messages that a member can send side by side
  Crossing crossing = {};
  double way_messages = 0;
  double way_bytes = 0;
};

// Of a way of so many messages, of which a slow member handles those of a parent of two.
double Slowdown(double way_messages, const LinkModel& link) {
  constexpr double kOfOneMember = 6;
  const double slow = std::min(kOfOneMember, way_messages);
  return way_messages == 0 ? 1 : 1 + (link.slowest - 1) * slow / way_messages;
}

Cost Make(std::uint32_t rounds, double volume, const Load& load, const LinkModel& link) {
  const auto whole_bytes = static_cast<std::uint64_t>(std::ceil(volume));
  const double rails = std::clamp<double>(load.at_once, 1, link.rails);
  const auto port = [&](double messages, double sent) {
    return messages * link.message_seconds + sent / link.bytes_per_second;
  };
  double seconds = load.latencies * link.latency_seconds +
                   port(load.way_messages, load.way_bytes) * Slowdown(load.way_messages, link) +
                   port(load.messages, load.bytes) * link.slowest / rails;
  if (const Crossing& crossing = load.crossing; crossing.group_bytes > 0) {
    const double sent = (load.way_bytes + load.bytes / rails) / link.bytes_per_second;
    seconds +=
        crossing.latencies * link.uplink.latency_seconds +
        std::max(0.0, crossing.group_bytes / link.uplink.bytes_per_second - crossing.share * sent);
  }
  return {.rounds = rounds,
          .bytes_sent = whole_bytes,
          .bytes_received = whole_bytes,
          .seconds = seconds};
}

double SlicesIn(double bytes, double slice_bytes) {
  return std::max(1.0, std::ceil(bytes / slice_bytes));
}

// How many of messages that are ready together go side by side on average, as the last round of
// them may leave rails idle.
double AtOnce(double messages, const LinkModel& link) {
  return messages / std::ceil(messages / link.rails);
}

// Members of a group behind one uplink; 0 if there is nothing beyond it.
std::uint32_t GroupOf(const LinkModel& link, std::uint32_t members) {
  return link.uplink.members < members ? link.uplink.members : 0;
}

Crossing CrossingOfRing(double volume, std::uint32_t members, const LinkModel& link) {
  const std::uint32_t group = GroupOf(link, members);
  return group == 0 ? Crossing{} : Crossing{2.0 * (members - 1) / group, volume};
}

// Everybody sends `bytes` to each other member, `times` times one after the other.
Crossing CrossingOfAll(double bytes, double times, std::uint32_t members, const LinkModel& link) {
  const std::uint32_t group = GroupOf(link, members);
  return group == 0 ? Crossing{} : Crossing{times, times * group * (members - group) * bytes};
}

// Times the tensor that the busiest group sends out, as the simulator counts it: of two trees that
// share the tensor less than of one, and least among few groups.
Crossing CrossingOfTree(
    double bytes, double trees, double passes, std::uint32_t members, const LinkModel& link) {
  const std::uint32_t group = GroupOf(link, members);
  if (group == 0) {
    return {};
  }
  const std::uint32_t groups = (members - 1) / group + 1;
  const double of_group = groups <= 3 ? 2 : trees == 1 ? 4 : 3;
  return {2.0 * std::bit_width(groups - 1), (group == 1 ? passes : of_group) * bytes};
}

// Exchanges at the group's distance and beyond; `folded` bytes cross too.
Crossing CrossingOfHalving(double bytes,
                           double folded,
                           std::uint32_t members,
                           const LinkModel& link) {
  const std::uint32_t group = GroupOf(link, members);
  const std::uint32_t core = std::bit_floor(members);
  if (group == 0) {
    return {};
  }
  const double inside = std::min(group, core);
  const double member_bytes = 2 * (core - inside) / core * bytes + folded;
  const double volume = 2.0 * (core - 1) / core * bytes + folded;
  return {2 * std::ceil(std::log2(core / inside)) + (folded > 0 ? 2 : 0),
          group * member_bytes,
          member_bytes / volume};
}

// `trees` share the tensor; the busiest member passes it on `passes` times.
Cost PredictTree(double bytes,
                 double slice,
                 double trees,
                 double passes,
                 std::uint32_t members,
                 const LinkModel& link) {
  const auto height = static_cast<std::uint32_t>(std::bit_width(members - 1));
  const double slices = SlicesIn(bytes / trees, slice);  // of each tree
  const double first = members == 3 ? 4 : 4.0 * height - 2;
  const double slice_bytes = bytes / (trees * slices);
  const double messages = trees * passes * (slices - 1);
  return Make(2 * height,
              passes * bytes,
              {.latencies = 2.0 * height,
               .messages = messages,
               .bytes = messages * slice_bytes,
               .at_once = slices,
               .crossing = CrossingOfTree(bytes, trees, passes, members, link),
               .way_messages = first,
               .way_bytes = first * slice_bytes},
              link);
}

Cost PredictHalvingDoubling(double bytes,
                            double slice,
                            std::uint32_t members,
                            const LinkModel& link) {
  const std::uint32_t core = std::bit_floor(members);
  const double chunk = bytes / core;
  const double slices = SlicesIn(chunk, slice);
  const double rails = link.rails;
  const bool folds = core != members;
  const auto messages_of = [&](double chunks) { return std::max(1.0, chunks * slices / rails); };
  double messages = folds ? 2 * messages_of(core) : 0;
  std::uint32_t rounds = folds ? 2 : 0;
  for (std::uint32_t distance = 1; distance < core; distance *= 2) {
    messages += 2 * messages_of(distance);
    rounds += 2;
  }
  const double folded = folds ? bytes : 0;
  return Make(rounds,
              2 * (core - 1) * chunk + folded,
              {.latencies = static_cast<double>(rounds),
               .messages = messages,
               .bytes = messages * chunk / slices,
               .crossing = CrossingOfHalving(bytes, folded, members, link)},
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

// Of a ring whose chunks are several messages: while one is on its way, the next is sent.
double HiddenLatency(const LevelModel& level, std::uint64_t bytes, std::uint64_t slice_bytes) {
  if (level.algorithm != Algorithm::kRing || level.members == 1) {
    return 0;
  }
  const double chunk = static_cast<double>(bytes) / level.members;
  const double slices = SlicesIn(chunk, static_cast<double>(slice_bytes));
  const LinkModel& link = level.link;
  const double others =
      (slices - 1) * link.message_seconds + (chunk - chunk / slices) / link.bytes_per_second;
  return 2.0 * (level.members - 1) * std::min(link.latency_seconds, others);
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
  MAYPOLE_CHECK(members > 0 && link.bytes_per_second > 0 && link.rails > 0 && slice_bytes > 0);
  MAYPOLE_CHECK(link.slowest >= 1);
  MAYPOLE_CHECK(link.uplink.members == 0 || link.uplink.bytes_per_second > 0);
  if (members == 1) {
    return {};
  }
  const std::uint32_t others = members - 1;
  const double size = static_cast<double>(bytes);
  const double slice = static_cast<double>(slice_bytes);
  const double chunk = size / members;
  const double chunked = 2.0 * others * chunk;
  const double slices = SlicesIn(chunk, slice);
  switch (algorithm) {
    case Algorithm::kDirect:
      return Make(2,
                  chunked,
                  {.latencies = 2,
                   .messages = 2 * others * slices,
                   .bytes = chunked,
                   .at_once = AtOnce(others * slices, link),
                   .crossing = CrossingOfAll(chunk, 2, members, link)},
                  link);
    case Algorithm::kNaive:
      return Make(1,
                  others * size,
                  {.latencies = 2.0 * others,
                   .messages = 2 * others * SlicesIn(size, slice),
                   .bytes = 2 * others * size,
                   .at_once = SlicesIn(size, slice),
                   .crossing = CrossingOfAll(size, 1, members, link)},
                  link);
    case Algorithm::kTree:
      return PredictTree(size, slice, 1, TreeLoad(members, 3), members, link);
    case Algorithm::kDoubleTree:
      return PredictTree(size, slice, 2, TreeLoad(members, 2), members, link);
    case Algorithm::kHalvingDoubling:
      return PredictHalvingDoubling(size, slice, members, link);
    default:
      return Make(2 * others,
                  chunked,
                  {.latencies = 2.0 * others,
                   .messages = 2 * others * slices,
                   .bytes = chunked,
                   .at_once = slices,
                   .crossing = CrossingOfRing(chunked, members, link)},
                  link);
  }
}

double BusFactor(Collective collective, std::uint32_t members) {
  const double share = static_cast<double>(members - 1) / members;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * share;
    case Collective::kReduceScatter:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return share;
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kSendReceive:
      return members > 1 ? 1 : 0;
    case Collective::kBarrier:
      break;
  }
  return 0;
}

Cost PredictHierarchical(std::span<const LevelModel> levels,
                         std::uint64_t bytes,
                         std::uint64_t slice_bytes) {
  // What the highest level cuts apart is never together in one message below.
  std::uint64_t parts = 1;
  for (const LevelModel& level : levels) {
    parts *= BlockCount(level.algorithm, level.members);
  }
  slice_bytes = std::clamp<std::uint64_t>((bytes + parts - 1) / parts, 1, slice_bytes);
  Cost total;
  for (const LevelModel& level : levels) {
    const Cost cost =
        PredictAllReduce(level.algorithm, bytes, level.members, level.link, slice_bytes);
    total.rounds += cost.rounds;
    total.bytes_sent += cost.bytes_sent;
    total.bytes_received += cost.bytes_received;
    total.seconds += cost.seconds - HiddenLatency(level, bytes, slice_bytes);
    const std::uint32_t blocks = BlockCount(level.algorithm, level.members);
    bytes = (bytes + blocks - 1) / blocks;
  }
  return total;
}

double EffectiveBandwidth(std::uint64_t bytes, double seconds) {
  return seconds > 0 ? 2.0 * static_cast<double>(bytes) / seconds : 0;
}

}  // namespace maypole::collective
