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

}  // namespace
}  // namespace maypole::server
