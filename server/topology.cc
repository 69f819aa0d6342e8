#include "server/topology.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <unordered_map>

#include "common/check.h"
#include "server/groups.h"
#include "server/ring_order.h"

namespace maypole::server {
namespace {

using collective::Algorithm;
using collective::LevelModel;
using collective::LinkModel;

constexpr std::size_t kNodesInReason = 8;
// A ring by cost must save more than this share of a lap, or neighbours in rank stay neighbours:
// two measurements of equal links differ by as much.
constexpr double kWorthwhile = 0.2;
// Of links whose costs differ by less, the median stands for all; else the worst does.
constexpr double kAlike = 2;
// Of each node, on average: enough to know what the links of a large job cost.
constexpr std::size_t kSampledLinks = 32;
// At which a level's algorithm is chosen.
constexpr std::uint64_t kLevelBytes = 4 << 20;

using Order = std::vector<std::size_t>;

std::vector<PlannedMember> ByRank(const std::map<Rank, std::string>& node_of_rank) {
  std::vector<PlannedMember> members;
  std::unordered_map<std::string, std::size_t> place;
  for (const auto& [rank, node] :
       node_of_rank) {  // ascending, so a node enters with its lowest rank
    const auto [it, is_new] = place.try_emplace(node, members.size());
    if (is_new) {
      members.push_back({.node = node, .ranks = {}});
    }
    members[it->second].ranks.push_back(rank);
  }
  return members;
}

// ---- measured links

double Typical(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double WorstOrTypical(const std::vector<double>& values) {
  const double typical = Typical(values);
  const double worst = *std::max_element(values.begin(), values.end());
  return worst <= kAlike * typical ? typical : worst;
}

template <typename Choose>
LinkModel Combined(const std::vector<LinkModel>& links, Choose choose) {
  std::vector<double> latency;
  std::vector<double> message;
  std::vector<double> pace;
  for (const LinkModel& link : links) {
    latency.push_back(link.latency_seconds);
    message.push_back(link.message_seconds);
    pace.push_back(1 / link.bytes_per_second);
  }
  return {.latency_seconds = choose(latency),
          .bytes_per_second = 1 / choose(pace),
          .message_seconds = choose(message)};
}

LinkModel WorstOf(const std::vector<LinkModel>& links) {
  return Combined(links, WorstOrTypical);
}

// A link between two of the nodes.
struct KnownLink {
  std::size_t a = 0;
  std::size_t b = 0;
  LinkModel model;
};

std::vector<KnownLink> KnownLinks(const std::vector<std::string>& nodes, const LinkTable& links) {
  std::unordered_map<std::string, std::size_t> places;
  for (const std::string& node : nodes) {
    places.emplace(node, places.size());
  }
  std::vector<KnownLink> known;
  for (const auto& [pair, cost] : links.all()) {
    const auto a = places.find(pair.first);
    const auto b = places.find(pair.second);
    if (a != places.end() && b != places.end()) {
      known.push_back({.a = a->second, .b = b->second, .model = cost.model});
    }
  }
  return known;
}

std::vector<LinkModel> ModelsOf(const std::vector<KnownLink>& links) {
  std::vector<LinkModel> models;
  for (const KnownLink& link : links) {
    models.push_back(link.model);
  }
  return models;
}

// Which node is near to which takes half of the pairs.
bool SufficesForOrder(std::size_t known, std::size_t nodes) {
  return known > 0 && 4 * known >= nodes * (nodes - 1);
}

// What links cost, where they differ as a sample says.
bool SufficesForCosts(std::size_t known, std::size_t nodes) {
  return SufficesForOrder(known, nodes) || (known > 0 && 2 * known >= kSampledLinks * nodes);
}

// Links that are not known are taken to be typical.
std::optional<LinkMatrix> MatrixOf(const std::vector<std::string>& nodes, const LinkTable& links) {
  const std::vector<KnownLink> known = KnownLinks(nodes, links);
  if (!SufficesForOrder(known.size(), nodes.size())) {
    return std::nullopt;
  }
  LinkMatrix matrix(nodes.size());
  const LinkModel typical = Combined(ModelsOf(known), Typical);
  for (std::size_t a = 0; a < nodes.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      matrix.Set(a, b, typical);
    }
  }
  for (const KnownLink& link : known) {
    matrix.Set(link.a, link.b, link.model);
  }
  return matrix;
}

// ---- levels

// The sizes of groups of consecutive members, from the inside out.
std::vector<collective::Level> LevelsOf(const Order& order, const std::vector<Grouping>& groups) {
  std::vector<collective::Level> levels;
  std::vector<std::size_t> firsts = order;  // of each group of the level below
  for (const Grouping& grouping : groups) {
    collective::Level& level = levels.emplace_back();
    std::vector<std::size_t> next;
    for (const std::size_t node : firsts) {
      if (next.empty() || grouping[next.back()] != grouping[node]) {
        next.push_back(node);
        level.groups.push_back(0);
      }
      ++level.groups.back();
    }
    firsts = std::move(next);
  }
  if (!groups.empty()) {
    levels.push_back({.groups = {static_cast<std::uint32_t>(firsts.size())}});
  }
  return levels;
}

// The group of each member at each level but the last.
std::vector<Grouping> GroupingsOf(std::size_t members,
                                  const std::vector<collective::Level>& levels) {
  std::vector<Grouping> groupings;
  Grouping below(members);  // each member alone
  std::iota(below.begin(), below.end(), std::uint32_t{0});
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
    Grouping group_of_group;
    for (std::uint32_t group = 0; group < levels[level].groups.size(); ++group) {
      group_of_group.insert(group_of_group.end(), levels[level].groups[group], group);
    }
    for (std::uint32_t& group : below) {
      group = group_of_group[group];
    }
    groupings.push_back(below);
  }
  return groupings;
}

// How many levels lie between two members: 0 inside an innermost group.
std::size_t Distance(const std::vector<Grouping>& groups, std::size_t a, std::size_t b) {
  std::size_t distance = 0;
  while (distance < groups.size() && groups[distance][a] != groups[distance][b]) {
    ++distance;
  }
  return distance;
}

Algorithm FastestFor(const LevelModel& level) {
  Algorithm fastest = Algorithm::kRing;
  double least = 0;
  for (const Algorithm algorithm : collective::kPreference) {
    if (algorithm == Algorithm::kHierarchical) {
      continue;  // it is made of the others
    }
    const double seconds =
        PredictAllReduce(algorithm, kLevelBytes, level.members, level.link).seconds;
    if (least == 0 || seconds < least * (1 - collective::kTie)) {
      least = seconds;
      fastest = algorithm;
    }
  }
  return fastest;
}

// ---- reasons

std::string Listed(const std::vector<PlannedMember>& ring) {
  std::string text;
  for (std::size_t i = 0; i < ring.size() && i < kNodesInReason; ++i) {
    text += " " + ring[i].node + " (" + std::to_string(ring[i].ranks.front().value()) + ")";
  }
  if (ring.size() > kNodesInReason) {
    text += " and " + std::to_string(ring.size() - kNodesInReason) + " more";
  }
  return text;
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.0f %%", 100 * share);
  return text;
}

}  // namespace

std::optional<collective::MeasuredLinks> CostsOf(const std::vector<std::string>& ring,
                                                 const std::vector<collective::Level>& levels,
                                                 const LinkTable& links) {
  const std::vector<KnownLink> known = KnownLinks(ring, links);
  if (!SufficesForCosts(known.size(), ring.size())) {
    return std::nullopt;
  }
  const std::vector<LinkModel> all = ModelsOf(known);
  const LinkModel typical = Combined(all, Typical);
  std::vector<LinkModel> neighbours;
  std::vector<std::vector<LinkModel>> by_level(levels.size());
  const std::vector<Grouping> groups = GroupingsOf(ring.size(), levels);
  for (const KnownLink& link : known) {
    const std::size_t apart = std::max(link.a, link.b) - std::min(link.a, link.b);
    if (apart == 1 || apart + 1 == ring.size()) {
      neighbours.push_back(link.model);
    }
    if (!levels.empty()) {
      by_level[Distance(groups, link.a, link.b)].push_back(link.model);
    }
  }
  if (neighbours.size() < (ring.size() == 2 ? 1 : ring.size())) {
    neighbours.push_back(typical);  // stands for those that are not known
  }
  collective::MeasuredLinks costs{.ring = WorstOf(neighbours), .any = WorstOf(all), .levels = {}};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    costs.levels.push_back(
        {.members = *std::max_element(levels[i].groups.begin(), levels[i].groups.end()),
         .algorithm = levels[i].algorithm,
         .link = by_level[i].empty() ? typical : WorstOf(by_level[i])});
  }
  return costs;
}

Topology PlanTopology(const std::map<Rank, std::string>& node_of_rank,
                      const LinkTable& links,
                      const std::map<std::string, Labels>& labels) {
  const std::vector<PlannedMember> members = ByRank(node_of_rank);
  std::vector<Labels> labels_of;
  std::vector<std::string> nodes;
  for (const PlannedMember& member : members) {
    nodes.push_back(member.node);
    const auto found = labels.find(member.node);
    labels_of.push_back(found == labels.end() ? Labels() : found->second);
  }
  const std::optional<LinkMatrix> matrix = MatrixOf(nodes, links);
  Groups groups = GroupsByLabels(labels_of);
  if (groups.levels.empty() && matrix) {
    groups = GroupsByCost(*matrix);
  }

  Topology topology;
  Order order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::string why = "; so neighbours in rank are neighbours in the ring";
  std::string how = "ring in the order of each node's lowest rank:";
  if (matrix || !groups.levels.empty()) {
    LinkMatrix alike(members.size());
    for (std::size_t a = 0; a < members.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        alike.Set(a, b, {.latency_seconds = 1e-5, .bytes_per_second = 1e9});
      }
    }
    const LinkMatrix& known = matrix ? *matrix : alike;
    Order best = BestRing(known, groups.levels);
    MAYPOLE_CHECK(best.size() == members.size());
    const double gain = 1 - LapSeconds(known, best) / LapSeconds(known, order);
    if (gain > kWorthwhile) {
      how = "ring by measured links:";
      why = "; a lap takes " + Percent(gain) + " less time than in the order of ranks";
      order = std::move(best);
    } else if (!groups.levels.empty()) {
      how = "ring through one group after the other:";
      why = "; so groups are left as seldom as possible";
      order = std::move(best);
    } else {
      why += ", and no other order is " + Percent(kWorthwhile) + " shorter";
    }
  }
  for (const std::size_t node : order) {
    topology.ring.push_back(members[node]);
  }
  topology.reason = how + Listed(topology.ring) + why;
  topology.levels = LevelsOf(order, groups.levels);
  if (!groups.reason.empty()) {
    topology.reason += "; " + groups.reason;
  }
  std::vector<std::string> ring;
  for (const PlannedMember& member : topology.ring) {
    ring.push_back(member.node);
  }
  topology.links = CostsOf(ring, topology.levels, links);
  if (topology.links) {
    for (std::size_t i = 0; i < topology.levels.size(); ++i) {
      LevelModel& model = topology.links->levels[i];
      topology.levels[i].algorithm = model.algorithm = FastestFor(model);
    }
  }
  return topology;
}

}  // namespace maypole::server
