#include "server/ring_order.h"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "collective/make.h"
#include "collective/simulate.h"

namespace maypole::server {
namespace {

using collective::LinkModel;
using Order = std::vector<std::size_t>;
using testing::Each;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

constexpr LinkModel kFast = {
    .latency_seconds = 10e-6, .bytes_per_second = 1.25e9, .message_seconds = 2e-6};
constexpr LinkModel kSlow = {
    .latency_seconds = 100e-6, .bytes_per_second = 1.25e8, .message_seconds = 2e-6};

LinkMatrix Uniform(std::size_t nodes) {
  LinkMatrix links(nodes);
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      links.Set(a, b, kFast);
    }
  }
  return links;
}

// The simulated time of a ring all-reduce of 32 MiB, the nodes standing in this order.
double Simulated(const LinkMatrix& links,
                 const Order& order,
                 const std::vector<collective::Schedule>& schedules) {
  collective::Network network{.link = kFast};
  for (std::uint32_t a = 0; a < order.size(); ++a) {
    const std::uint32_t b = (a + 1) % static_cast<std::uint32_t>(order.size());
    network.paths[{Member(a), Member(b)}] = links.at(order[a], order[b]);
  }
  return collective::Simulate(schedules, network).seconds;
}

void ExpectNearlyTheBestOfAllOrders(const LinkMatrix& links) {
  const auto schedules =
      collective::MakeSchedules(collective::Algorithm::kRing,
                                {.members = 8, .elements = 8 << 20, .slice_elements = 256 << 10});
  const double chosen = Simulated(links, BestRing(links, {}), schedules);
  Order order(links.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  double best = chosen;
  do {
    if (order[1] < order.back()) {  // the mirror image takes as long
      best = std::min(best, Simulated(links, order, schedules));
    }
  } while (std::next_permutation(order.begin() + 1, order.end()));
  EXPECT_LE(chosen, 1.05 * best);
}

TEST(RingOrder, IsWithinFivePercentOfTheBestOfAllOrdersOfEight) {
  for (const double share_of_slow : {0.3, 0.6}) {
    std::mt19937 random(7);
    LinkMatrix links = Uniform(8);
    for (std::size_t a = 0; a < 8; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (std::uniform_real_distribution<>(0, 1)(random) < share_of_slow) {
          links.Set(a, b, kSlow);
        }
      }
    }
    ExpectNearlyTheBestOfAllOrders(links);
  }
}

TEST(RingOrder, IsWithinFivePercentOfTheBestWhereEveryLinkDiffers) {
  std::mt19937 random(11);
  std::uniform_real_distribution<> factor(1, 10);
  LinkMatrix links(8);
  for (std::size_t a = 0; a < 8; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      links.Set(a, b, {10e-6 * factor(random), 1.25e9 / factor(random), 2e-6});
    }
  }
  ExpectNearlyTheBestOfAllOrders(links);
}

// Even nodes in one place, odd ones in another.
LinkMatrix TwoPlaces(std::size_t nodes) {
  LinkMatrix links = Uniform(nodes);
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (a % 2 != b % 2) {
        links.Set(a, b, kSlow);
      }
    }
  }
  return links;
}

std::size_t Crossings(const Order& order) {
  std::size_t crossings = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    crossings += order[i] % 2 != order[(i + 1) % order.size()] % 2 ? 1 : 0;
  }
  return crossings;
}

TEST(RingOrder, CrossesBetweenTwoPlacesTwice) {
  for (const std::size_t nodes : {4U, 8U, 9U, 10U, 24U, 60U, 200U}) {
    const Order order = BestRing(TwoPlaces(nodes), {});
    EXPECT_EQ(Crossings(order), 2u) << nodes;
    EXPECT_EQ(order.front(), 0u);
    Order sorted = order;
    std::sort(sorted.begin(), sorted.end());
    Order all(nodes);
    std::iota(all.begin(), all.end(), std::size_t{0});
    EXPECT_EQ(sorted, all);
  }
}

TEST(RingOrder, KeepsGroupsTogetherWhateverTheLinksSay) {
  for (const std::size_t nodes : {8U, 12U, 40U}) {
    Grouping inner;
    Grouping outer;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      inner.push_back(node / 2);
      outer.push_back(node / 4);
    }
    const Order order = BestRing(TwoPlaces(nodes), {inner, outer});
    for (const Grouping& level : {inner, outer}) {
      std::size_t borders = 0;
      for (std::size_t i = 1; i < nodes; ++i) {
        borders += level[order[i]] != level[order[i - 1]] ? 1 : 0;
      }
      EXPECT_EQ(borders, *std::max_element(level.begin(), level.end())) << nodes;
    }
    EXPECT_EQ(outer[order.front()], 0u);
  }
}

TEST(RingOrder, OfFewNodesIsThemselves) {
  EXPECT_THAT(BestRing(LinkMatrix(0), {}), ElementsAre());
  EXPECT_THAT(BestRing(LinkMatrix(1), {}), ElementsAre(0));
  EXPECT_THAT(BestRing(Uniform(2), {}), ElementsAre(0, 1));
  EXPECT_THAT(BestRing(Uniform(3), {}), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace maypole::server
