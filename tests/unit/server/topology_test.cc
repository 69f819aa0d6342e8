#include "server/topology.h"

#include <gmock/gmock.h>

namespace maypole::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Topology, OrdersNodesByTheirLowestRank) {
  const Topology topology = PlanTopology(
      {{Rank(0), "z"}, {Rank(1), "a"}, {Rank(2), "z"}, {Rank(3), "m"}, {Rank(4), "a"}});
  EXPECT_THAT(topology.ring,
              ElementsAre(PlannedMember{"z", {Rank(0), Rank(2)}},
                          PlannedMember{"a", {Rank(1), Rank(4)}},
                          PlannedMember{"m", {Rank(3)}}));
  EXPECT_THAT(topology.reason, HasSubstr("z (0) a (1) m (3)"));
}

TEST(Topology, OfOneRankIsOneMember) {
  EXPECT_THAT(PlanTopology({{Rank(0), "a"}}).ring, ElementsAre(PlannedMember{"a", {Rank(0)}}));
}

TEST(Topology, OfNobodyIsEmpty) {
  EXPECT_THAT(PlanTopology({}).ring, IsEmpty());
}

TEST(Topology, ReasonStaysShortForManyNodes) {
  std::map<Rank, std::string> ranks;
  for (std::uint32_t rank = 0; rank < 1000; ++rank) {
    ranks[Rank(rank)] = "node-" + std::to_string(rank);
  }
  const Topology topology = PlanTopology(ranks);
  EXPECT_EQ(topology.ring.size(), 1000u);
  EXPECT_THAT(topology.reason, HasSubstr("and 992 more"));
  EXPECT_THAT(topology.reason, Not(HasSubstr("node-8")));
}

constexpr collective::LinkModel kNear = {
    .latency_seconds = 10e-6, .bytes_per_second = 1.25e9, .message_seconds = 2e-6};
constexpr collective::LinkModel kFar = {
    .latency_seconds = 200e-6, .bytes_per_second = 1.25e8, .message_seconds = 2e-6};

// One rank on each of a, b, c, ...
std::map<Rank, std::string> OneRankEach(std::uint32_t nodes) {
  std::map<Rank, std::string> ranks;
  for (std::uint32_t rank = 0; rank < nodes; ++rank) {
    ranks[Rank(rank)] = std::string(1, static_cast<char>('a' + rank));
  }
  return ranks;
}

// Every second node is in another place.
LinkTable TwoPlaces(std::uint32_t nodes) {
  LinkTable links;
  const auto ranks = OneRankEach(nodes);
  for (const auto& [a, node_a] : ranks) {
    for (const auto& [b, node_b] : ranks) {
      if (a < b) {
        links.Set(node_a, node_b, {a.value() % 2 == b.value() % 2 ? kNear : kFar, 10, {}});
      }
    }
  }
  return links;
}

std::string NodesOf(const Topology& topology) {
  std::string nodes;
  for (const PlannedMember& member : topology.ring) {
    nodes += member.node;
  }
  return nodes;
}

TEST(Topology, FollowsMeasuredLinksIntoGroupsAndLevels) {
  const Topology topology = PlanTopology(OneRankEach(8), TwoPlaces(8));
  const std::string nodes = NodesOf(topology);
  EXPECT_EQ(nodes, "acegbdfh");
  ASSERT_EQ(topology.levels.size(), 2u);
  EXPECT_THAT(topology.levels[0].groups, ElementsAre(4, 4));
  EXPECT_THAT(topology.levels[1].groups, ElementsAre(2));
  ASSERT_TRUE(topology.links);
  EXPECT_DOUBLE_EQ(topology.links->ring.bytes_per_second, kFar.bytes_per_second);
  ASSERT_EQ(topology.links->levels.size(), 2u);
  EXPECT_EQ(topology.links->levels[0].members, 4u);
  EXPECT_DOUBLE_EQ(topology.links->levels[0].link.bytes_per_second, kNear.bytes_per_second);
  EXPECT_DOUBLE_EQ(topology.links->levels[1].link.bytes_per_second, kFar.bytes_per_second);
  EXPECT_THAT(topology.reason, HasSubstr("ring by measured links"));
  EXPECT_THAT(topology.reason, HasSubstr("less time than in the order of ranks"));
  EXPECT_THAT(topology.reason, HasSubstr("groups by measured cost"));
}

TEST(Topology, KeepsTheOrderOfRanksWhereLinksAreAlike) {
  LinkTable links;
  double factor = 1;
  for (const auto& [a, b] : {std::pair("a", "b"), {"a", "c"}, {"b", "c"}, {"a", "d"}, {"b", "d"}}) {
    factor += 0.05;  // one pair is not measured at all
    links.Set(a, b, {{10e-6 * factor, 1.25e9 / factor, 2e-6}, 10, {}});
  }
  const Topology topology = PlanTopology(OneRankEach(4), links);
  EXPECT_EQ(NodesOf(topology), "abcd");
  EXPECT_THAT(topology.levels, IsEmpty());
  ASSERT_TRUE(topology.links);
  EXPECT_THAT(topology.reason, HasSubstr("no other order is 20 % shorter"));
}

TEST(Topology, OfManyNodesKnowsWhatLinksCostFromASample) {
  constexpr std::uint32_t kNodes = 300;
  std::map<Rank, std::string> ranks;
  std::map<std::string, Labels> racks;
  for (std::uint32_t rank = 0; rank < kNodes; ++rank) {
    const std::string node = "node-" + std::to_string(rank);
    ranks[Rank(rank)] = node;
    racks[node] = {{"rack", std::to_string(rank / 100)}};
  }
  LinkTable links;
  for (std::uint32_t a = 0; a < kNodes; ++a) {
    for (std::uint32_t step = 1; step <= 15; ++step) {
      const std::uint32_t b = (a + step * 7) % kNodes;
      links.Set(ranks[Rank(a)], ranks[Rank(b)], {.model = a / 100 == b / 100 ? kNear : kFar});
    }
  }
  EXPECT_FALSE(PlanTopology(ranks, links).links);  // 30 of each
  for (std::uint32_t a = 0; a < kNodes; ++a) {
    const std::uint32_t b = (a + 1) % kNodes;
    links.Set(ranks[Rank(a)], ranks[Rank(b)], {.model = a / 100 == b / 100 ? kNear : kFar});
  }
  const Topology flat = PlanTopology(ranks, links);
  ASSERT_TRUE(flat.links);
  EXPECT_TRUE(flat.levels.empty());
  EXPECT_EQ(flat.ring[1].node, "node-1");
  EXPECT_DOUBLE_EQ(flat.links->any.bytes_per_second, kFar.bytes_per_second);
  const Topology racked = PlanTopology(ranks, links, racks);
  ASSERT_TRUE(racked.links);
  ASSERT_EQ(racked.links->levels.size(), 2u);
  EXPECT_DOUBLE_EQ(racked.links->levels[0].link.bytes_per_second, kNear.bytes_per_second);
  EXPECT_DOUBLE_EQ(racked.links->levels[1].link.bytes_per_second, kFar.bytes_per_second);
}

TEST(Topology, DoesNotTrustAFewLinks) {
  LinkTable links;
  links.Set("a", "b", {kFar, 10, {}});
  const Topology topology = PlanTopology(OneRankEach(4), links);
  EXPECT_EQ(NodesOf(topology), "abcd");
  EXPECT_FALSE(topology.links);
}

TEST(Topology, LabelsSayTheGroupsWhereAllNodesHaveThem) {
  std::map<std::string, Labels> labels;
  for (std::uint32_t i = 0; i < 8; ++i) {
    labels[std::string(1, static_cast<char>('a' + i))] = {{"zone", std::to_string(i % 2)},
                                                          {"rack", std::to_string(i % 4)}};
  }
  const Topology topology = PlanTopology(OneRankEach(8), {}, labels);
  EXPECT_EQ(NodesOf(topology), "aecgbfdh");
  ASSERT_EQ(topology.levels.size(), 3u);
  EXPECT_THAT(topology.levels[0].groups, ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(topology.levels[1].groups, ElementsAre(2, 2));
  EXPECT_THAT(topology.levels[2].groups, ElementsAre(2));
  EXPECT_THAT(topology.reason, HasSubstr("groups by the agents' labels: zone rack"));
  labels.erase("h");
  EXPECT_THAT(PlanTopology(OneRankEach(8), {}, labels).levels, IsEmpty());
}

TEST(Topology, TakesNoLevelThatJoinsNobodyOrEverybody) {
  std::map<std::string, Labels> labels;
  for (const char* node : {"a", "b", "c"}) {
    labels[node] = {{"zone", "same"}, {"host", node}};
  }
  EXPECT_THAT(PlanTopology(OneRankEach(3), {}, labels).levels, IsEmpty());
}

}  // namespace
}  // namespace maypole::server
