#include "collective/simulate.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/hierarchical.h"
#include "collective/make.h"
#include "tests/unit/collective/networks.h"
#include "tests/unit/collective/traffic.h"

namespace maypole::collective {
namespace {

using testing::HasSubstr;

constexpr ElementCount kElements = 16 << 20;  // 64 MiB of f32

Simulation Simulated(Algorithm algorithm,
                     const Shape& shape,
                     const Network& network = {.link = kLink},
                     const SimulationOptions& options = {}) {
  return Simulate(MakeSchedules(algorithm, shape), network, options);
}

double Predicted(Algorithm algorithm, const Shape& shape) {
  return PredictAllReduce(algorithm, shape.elements * 4, shape.members, kLink).seconds;
}

TEST(SimulatedNetwork, AgreesWithTheRingsFormulaWhenSlicesArePipelined) {
  for (const std::uint32_t members : {2U, 4U, 16U}) {
    const Shape shape = {.members = members, .elements = kElements};
    const Simulation simulation = Simulated(Algorithm::kRing, shape);
    ASSERT_TRUE(simulation.finished) << simulation.problem;
    const double predicted = Predicted(Algorithm::kRing, shape);
    EXPECT_NEAR(simulation.seconds, predicted, predicted * 0.02) << members;
  }
}

TEST(SimulatedNetwork, EqualsTheRingsFormulaWithoutSlices) {
  const Shape shape = {.members = 4, .elements = 1 << 20, .slice_elements = 1 << 20};
  EXPECT_NEAR(Simulated(Algorithm::kRing, shape).seconds, Predicted(Algorithm::kRing, shape), 1e-9);
}

TEST(SimulatedNetwork, LetsDirectAndHalfOfNaiveAgreeWithTheirFormulas) {
  const Shape shape = {.members = 8, .elements = kElements};
  const double direct = Predicted(Algorithm::kDirect, shape);
  EXPECT_NEAR(Simulated(Algorithm::kDirect, shape).seconds, direct, direct * 0.05);
  const double naive = Predicted(Algorithm::kNaive, shape) / 2;
  EXPECT_NEAR(Simulated(Algorithm::kNaive, shape).seconds, naive, naive * 0.05);
}

TEST(SimulatedNetwork, CountsRoundsAndBytesLikeTheFormulas) {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kNaive}) {
    for (const std::uint32_t members : {1U, 2U, 5U}) {
      const Shape shape = {.members = members, .elements = 300 * members, .slice_elements = 128};
      const Simulation simulation = Simulated(algorithm, shape);
      const Cost cost = PredictAllReduce(algorithm, shape.elements * 4, members, kLink);
      ASSERT_TRUE(simulation.finished) << simulation.problem;
      EXPECT_EQ(simulation.rounds, cost.rounds);
      EXPECT_EQ(simulation.bytes_sent, std::vector<std::uint64_t>(members, cost.bytes_sent));
      EXPECT_EQ(simulation.bytes_received,
                std::vector<std::uint64_t>(members, cost.bytes_received));
    }
  }
}

TEST(SimulatedNetwork, CountsElementsByTheirSizeOnTheWireAndHeaders) {
  const Shape shape = {.members = 2, .elements = 8};
  const Simulation simulation =
      Simulated(Algorithm::kDirect,
                shape,
                {.link = kLink},
                {.accumulator_bytes = 4, .result_bytes = 2, .header_bytes = 56});
  EXPECT_EQ(simulation.bytes_sent, (std::vector<std::uint64_t>(2, 4 * 4 + 4 * 2 + 2 * 56)));
}

TEST(SimulatedNetwork, MakesTheSendersOfOneReceiverQueue) {
  // Three members send one message each to member 0.
  const ElementCount elements = 1'000'000;
  std::vector<Schedule> schedules(4);
  for (std::uint32_t member = 0; member < 4; ++member) {
    schedules[member] = {.self = Member(member), .members = 4, .elements = elements};
  }
  for (std::uint32_t member = 1; member < 4; ++member) {
    schedules[member].steps.push_back({.kind = StepKind::kSend, .range = {0, elements}});
    schedules[0].steps.push_back({.kind = StepKind::kReceive,
                                  .target = Buffer::kPartial,
                                  .peer = Member(member),
                                  .range = {0, elements}});
  }
  const Simulation simulation = Simulate(schedules, {.link = kLink});
  const double one = 4e6 / kLink.bytes_per_second;
  EXPECT_NEAR(simulation.seconds, 5e-6 + 3 * one, 1e-9);
  EXPECT_NEAR(simulation.member_seconds[1], one, 1e-9) << "its own port was free";
}

TEST(SimulatedNetwork, IsHeldUpByASlowMemberAndBySlowPaths) {
  const Shape shape = {.members = 4, .elements = kElements};
  const double even = Simulated(Algorithm::kRing, shape).seconds;
  const double slow_member =
      Simulated(Algorithm::kRing, shape, {.link = kLink, .slowness = {1, 1, 3}}).seconds;
  EXPECT_NEAR(slow_member / even, 3, 0.1);
  Network half = {.link = kLink};
  half.paths[{Member(3), Member(0)}] = {.latency_seconds = 5e-6,
                                        .bytes_per_second = kLink.bytes_per_second / 2};
  EXPECT_NEAR(Simulated(Algorithm::kRing, shape, half).seconds / even, 2, 0.1);
}

TEST(SimulatedNetwork, NeedsTheWindowToCoverTheLatency) {
  // 1 ms of latency is 3 MB on the way; slices are 64 KiB.
  const Network far = {.link = {.latency_seconds = 1e-3, .bytes_per_second = 3.125e9}};
  const Shape shape = {.members = 2, .elements = kElements, .slice_elements = 1 << 14};
  const double narrow = Simulated(Algorithm::kRing, shape, far, {.window = 1}).seconds;
  const double wide = Simulated(Algorithm::kRing, shape, far, {.window = 128}).seconds;
  EXPECT_GT(narrow, 20 * wide);
}

TEST(SimulatedNetwork, ChargesSumsWhereTheyBind) {
  const Shape shape = {.members = 4, .elements = kElements};
  const double per_element = 4 * 4 / kLink.bytes_per_second;  // four times the time on the wire
  const Simulation simulation =
      Simulated(Algorithm::kRing, shape, {.link = kLink}, {.seconds_per_element = per_element});
  // Three of four chunks are summed by every member.
  EXPECT_GT(simulation.seconds, 0.75 * kElements * per_element);
  EXPECT_LT(simulation.seconds, 1.1 * (0.75 * kElements * per_element + 16.2e-3));
}

TEST(SimulatedNetwork, LetsARingCrossOversubscribedUplinksWithoutLoss) {
  const Shape shape = {.members = 16, .elements = kElements};
  const double star = Simulated(Algorithm::kRing, shape).seconds;
  // One of four members sends out of its group, over an uplink as fast as its port.
  EXPECT_NEAR(Simulated(Algorithm::kRing, shape, FatTree(16, 4, 4)).seconds / star, 1, 0.02);
  EXPECT_NEAR(Simulated(Algorithm::kRing, shape, FatTree(16, 4, 8)).seconds / star, 2, 0.1);
}

TEST(SimulatedNetwork, MakesDirectShareTheUplinks) {
  const Shape shape = {.members = 16, .elements = kElements};
  const double star = Simulated(Algorithm::kDirect, shape).seconds;
  // 12 of 15 messages cross, at a quarter of the rate.
  EXPECT_NEAR(
      Simulated(Algorithm::kDirect, shape, FatTree(16, 4, 4)).seconds / star, 4 * 12.0 / 15, 0.4);
}

TEST(SimulatedNetwork, RewardsAHierarchyBehindOversubscribedUplinks) {
  const Network network = FatTree(16, 4, 8);
  const Shape shape = {.members = 16,
                       .elements = kElements,
                       .levels = EvenLevels({4, 4}, {Algorithm::kRing, Algorithm::kRing})};
  const double direct = Simulated(Algorithm::kDirect, shape, network).seconds;
  const double levels = Simulated(Algorithm::kHierarchical, shape, network).seconds;
  EXPECT_LT(levels, 0.6 * direct);
}

TEST(SimulatedNetwork, AddsTheUplinksLatencyOncePerCrossing) {
  const Shape shape = {.members = 2, .elements = 8};
  const double across = Simulated(Algorithm::kDirect, shape, FatTree(2, 1, 1)).seconds;
  EXPECT_NEAR(across - Simulated(Algorithm::kDirect, shape).seconds, 2 * 2e-6, 1e-12);
}

TEST(SimulatedNetwork, SharesMessagesAmongRails) {
  const Shape shape = {.members = 4, .elements = kElements};  // 32 slices of a chunk
  const double one = Simulated(Algorithm::kRing, shape).seconds;
  const double four = Simulated(Algorithm::kRing, shape, {.link = WithRails(4)}).seconds;
  EXPECT_NEAR(four / one, 0.25, 0.02);
  const Shape whole = {.members = 4, .elements = 1 << 20, .slice_elements = 1 << 20};
  EXPECT_EQ(Simulated(Algorithm::kRing, whole, {.link = WithRails(4)}).seconds,
            Simulated(Algorithm::kRing, whole).seconds)
      << "one message takes one rail";
}

TEST(SimulatedNetwork, SaysWhichStepWaitsForEver) {
  auto schedules = MakeSchedules(Algorithm::kRing, {.members = 3, .elements = 6});
  schedules[1].steps.erase(schedules[1].steps.begin());
  const Simulation simulation = Simulate(schedules, {.link = kLink});
  EXPECT_FALSE(simulation.finished);
  EXPECT_THAT(simulation.problem, HasSubstr("waits for ever"));
}

TEST(SimulatedNetwork, GivesTheSameTwice) {
  const Shape shape = {.members = 7, .elements = 12'345, .slice_elements = 100};
  EXPECT_EQ(Simulated(Algorithm::kDirect, shape).seconds,
            Simulated(Algorithm::kDirect, shape).seconds);
}

TEST(SimulatedNetwork, RunsHundredsOfMembers) {
  const Shape shape = {.members = 128, .elements = kElements};
  const Simulation simulation = Simulated(Algorithm::kRing, shape);
  ASSERT_TRUE(simulation.finished) << simulation.problem;
  EXPECT_EQ(simulation.rounds, 254U);
}

TEST(SimulatedNetwork, TakesNoTimeForNoElements) {
  const Simulation simulation = Simulated(Algorithm::kRing, {.members = 4, .elements = 0});
  EXPECT_TRUE(simulation.finished);
  EXPECT_EQ(simulation.seconds, 0);
}

}  // namespace
}  // namespace maypole::collective
