#include "tests/bench/scale/scale.h"

#include <algorithm>
#include <bit>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "collective/hierarchical.h"
#include "collective/simulate.h"
#include "collective/tuning.h"
#include "common/check.h"
#include "daemon/parse.h"

namespace maypole::scale {
namespace {

using collective::Algorithm;
using collective::LevelModel;
using collective::LinkModel;
using collective::Network;

constexpr std::uint32_t kRack = 32;
constexpr double kOversubscription = 4;
constexpr double kSlowness = 2;
constexpr LinkModel kLink = {
    .latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8, .message_seconds = 1e-6};
constexpr std::uint64_t kSlices[] = {256 << 10, 128 << 10, 64 << 10};
constexpr Algorithm kColumns[] = {Algorithm::kRing,
                                  Algorithm::kDirect,
                                  Algorithm::kTree,
                                  Algorithm::kDoubleTree,
                                  Algorithm::kHalvingDoubling,
                                  Algorithm::kHierarchical};

// A ring in every rack, halving-doubling across; none without several racks.
std::vector<LevelModel> LevelsOf(Kind kind, std::uint32_t members) {
  if (members <= kRack) {
    return {};
  }
  LinkModel inside = MakeNetwork(kind, members).link;
  inside.uplink = {};
  LinkModel across = inside;
  if (kind == Kind::kFatTree) {
    across.bytes_per_second /= kOversubscription;
  }
  return {{kRack, Algorithm::kRing, inside},
          {members / kRack, Algorithm::kHalvingDoubling, across}};
}

double Predicted(Kind kind,
                 std::uint32_t members,
                 std::uint64_t bytes,
                 Algorithm algorithm,
                 std::uint64_t slice) {
  return algorithm == Algorithm::kHierarchical
             ? PredictHierarchical(LevelsOf(kind, members), bytes, slice).seconds
             : PredictAllReduce(algorithm, bytes, members, MakeNetwork(kind, members).link, slice)
                   .seconds;
}

std::uint64_t BestSlice(Kind kind,
                        std::uint32_t members,
                        std::uint64_t bytes,
                        Algorithm algorithm) {
  return *std::min_element(
      std::begin(kSlices), std::end(kSlices), [&](std::uint64_t left, std::uint64_t right) {
        return Predicted(kind, members, bytes, algorithm, left) <
               Predicted(kind, members, bytes, algorithm, right);
      });
}

double Simulated(Kind kind,
                 std::uint32_t members,
                 std::uint64_t bytes,
                 Algorithm algorithm,
                 std::uint64_t slice) {
  collective::Shape shape = {.members = members, .elements = bytes, .slice_elements = slice};
  if (members > kRack) {
    shape.levels = collective::EvenLevels({kRack, members / kRack},
                                          {Algorithm::kRing, Algorithm::kHalvingDoubling});
  }
  const collective::Simulation simulation =
      SimulateAllReduce(algorithm,
                        shape,
                        MakeNetwork(kind, members),
                        {.window = 16, .accumulator_bytes = 1, .result_bytes = 1});
  MAYPOLE_CHECK(simulation.finished);
  return simulation.seconds;
}

double Bound(Kind kind, std::uint32_t members, std::uint64_t bytes) {
  const LinkModel link = MakeNetwork(kind, members).link;
  // Everybody's share, but the slowest cannot do with less than to send its input once.
  const double moved =
      static_cast<double>(bytes) * std::max(2.0 * (members - 1) / members, link.slowest);
  return std::max(moved / (link.bytes_per_second * link.rails),
                  std::bit_width(members - 1) * link.latency_seconds);
}

std::string Time(double seconds) {
  return seconds < 1e-3 ? absl::StrFormat("%.1f us", seconds * 1e6)
                        : absl::StrFormat("%.2f ms", seconds * 1e3);
}

}  // namespace

std::string Name(Kind kind) {
  switch (kind) {
    case Kind::kStar:
      return "star";
    case Kind::kFatTree:
      return "fat tree";
    case Kind::kRails:
      return "rails";
    case Kind::kSlow:
      return "slow node";
  }
  return "";
}

std::string Description(Kind kind) {
  switch (kind) {
    case Kind::kStar:
      return "One switch; every member has one link.";
    case Kind::kFatTree:
      return absl::StrFormat(
          "Racks of %d members whose uplinks carry 1/%.0f of what their members can, at 2 us more.",
          kRack,
          kOversubscription);
    case Kind::kRails:
      return "One switch; every member has four links, and a message takes one of them.";
    case Kind::kSlow:
      return absl::StrFormat(
          "One switch; of every %d members one takes %.0f times as long for everything.",
          kRack,
          kSlowness);
  }
  return "";
}

Network MakeNetwork(Kind kind, std::uint32_t members) {
  Network network = {.link = kLink};
  if (kind == Kind::kRails) {
    network.link.rails = 4;
  }
  for (std::uint32_t member = 0; member < members; ++member) {
    if (kind == Kind::kSlow) {
      const bool slow = member % kRack == std::min(2U, members - 1);
      network.slowness.push_back(slow ? kSlowness : 1);
    } else if (kind == Kind::kFatTree && members > kRack) {
      network.group_of.push_back(member / kRack);
    }
  }
  if (kind == Kind::kSlow) {
    network.link.slowest = kSlowness;
  }
  if (!network.group_of.empty()) {
    network.uplink = {.latency_seconds = 2e-6,
                      .bytes_per_second = kRack * kLink.bytes_per_second / kOversubscription};
    network.link.uplink = {kRack, network.uplink.bytes_per_second, network.uplink.latency_seconds};
  }
  return network;
}

double Cell::BestSeconds() const {
  double best = chosen_seconds;
  for (const auto& [algorithm, time] : seconds) {
    best = std::min(best, time);
  }
  return best;
}

double SimulatedSeconds(Kind kind,
                        std::uint32_t members,
                        std::uint64_t bytes,
                        Algorithm algorithm,
                        std::uint64_t slice_bytes) {
  const bool tree = algorithm == Algorithm::kTree || algorithm == Algorithm::kDoubleTree;
  const std::uint64_t most = kSimulatedSlices * slice_bytes;
  if (!tree || bytes <= most) {
    return Simulated(kind, members, bytes, algorithm, slice_bytes);
  }
  const double half = Simulated(kind, members, most / 2, algorithm, slice_bytes);
  const double whole = Simulated(kind, members, most, algorithm, slice_bytes);
  const double more = static_cast<double>(bytes - most) / static_cast<double>(most / 2);
  return whole + more * (whole - half);
}

Cell Measure(Kind kind, std::uint32_t members, std::uint64_t bytes) {
  Cell cell = {.members = members, .bytes = bytes, .bound_seconds = Bound(kind, members, bytes)};
  const std::vector<LevelModel> levels = LevelsOf(kind, members);
  const collective::TuningTable table =
      collective::MakeTuningTable(members, MakeNetwork(kind, members).link, levels);
  const collective::TuningRow& row = *table.Find(collective::Collective::kAllReduce, bytes);
  cell.chosen = row.algorithm;
  for (const Algorithm algorithm : kColumns) {
    if (algorithm == Algorithm::kHierarchical && levels.empty()) {
      continue;
    }
    const std::uint64_t slice = BestSlice(kind, members, bytes, algorithm);
    const double seconds = SimulatedSeconds(kind, members, bytes, algorithm, slice);
    cell.seconds.emplace_back(algorithm, seconds);
    if (algorithm == row.algorithm) {
      cell.chosen_seconds =
          slice == row.slice_bytes
              ? seconds
              : SimulatedSeconds(kind, members, bytes, algorithm, row.slice_bytes);
    }
  }
  return cell;
}

std::string TableHead() {
  std::string head = "| P | size | bound |";
  std::string rule = "|---|---|---|";
  for (const Algorithm algorithm : kColumns) {
    absl::StrAppend(&head, " ", std::string(collective::Name(algorithm)), " |");
    absl::StrAppend(&rule, "---|");
  }
  return absl::StrCat(head, " automatic | of the best |\n", rule, "---|---|\n");
}

std::string Line(const Cell& cell) {
  std::string line = absl::StrCat("| ",
                                  cell.members,
                                  " | ",
                                  daemon::FormatBytes(cell.bytes),
                                  " | ",
                                  Time(cell.bound_seconds),
                                  " |");
  for (const Algorithm algorithm : kColumns) {
    const auto found = std::find_if(cell.seconds.begin(),
                                    cell.seconds.end(),
                                    [&](const auto& column) { return column.first == algorithm; });
    absl::StrAppend(&line,
                    " ",
                    found == cell.seconds.end()
                        ? "-"
                        : absl::StrFormat("%.2f", found->second / cell.bound_seconds),
                    " |");
  }
  absl::StrAppendFormat(&line,
                        " %s %.2f | %.2f |\n",
                        std::string(collective::Name(cell.chosen)),
                        cell.chosen_seconds / cell.bound_seconds,
                        cell.chosen_seconds / cell.BestSeconds());
  return line;
}

}  // namespace maypole::scale
