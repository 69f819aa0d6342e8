#include "collective/plan_cost.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::collective {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

PlanRequest Request(std::uint64_t bytes, std::uint32_t ranks) {
  return {.bytes = bytes,
          .ranks = ranks,
          .link = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8}};
}

Cost CostIn(const Plan& plan, Algorithm algorithm) {
  for (const PlannedAlgorithm& planned : plan.algorithms) {
    if (planned.algorithm == algorithm) {
      return planned.cost;
    }
  }
  ADD_FAILURE() << Name(algorithm) << " is not planned";
  return {};
}

TEST(Plan, GivesTheKnownFiguresAt25GbitAnd5Microseconds) {
  struct Figure {
    std::uint64_t bytes;
    std::uint32_t ranks;
    double ring_ms;
    double naive_ms;
  };

  for (const Figure& figure : {Figure{64 * kMiB, 4, 32.24, 128.88},
                               Figure{64 * kMiB, 16, 40.42, 644.40},
                               Figure{512 * kMiB, 4, 257.73, 1030.82},
                               Figure{512 * kMiB, 16, 322.27, 5154.11}}) {
    const Plan plan = MakePlan(Request(figure.bytes, figure.ranks));
    EXPECT_NEAR(CostIn(plan, Algorithm::kRing).seconds * 1e3, figure.ring_ms, 0.005);
    EXPECT_NEAR(CostIn(plan, Algorithm::kNaive).seconds * 1e3, figure.naive_ms, 0.005);
  }
}

TEST(Plan, Moves1GBAmong32WorkersBy1Point94GBEachAgainst62) {
  const Plan plan = MakePlan(Request(1'000'000'000, 32));
  EXPECT_NEAR(static_cast<double>(CostIn(plan, Algorithm::kRing).bytes_sent), 1.94e9, 0.005e9);
  const Cost naive = CostIn(plan, Algorithm::kNaive);
  EXPECT_EQ(naive.bytes_sent + naive.bytes_received, 62'000'000'000U);
}

TEST(Plan, RecommendsNoAlgorithmThatIsMuchSlowerThanAnother) {
  for (const std::uint64_t bytes : {std::uint64_t{64}, kMiB, 1024 * kMiB}) {
    for (const std::uint32_t ranks : {1U, 2U, 6U, 64U, 1000U}) {
      const Plan plan = MakePlan(Request(bytes, ranks));
      const double recommended = CostIn(plan, plan.recommended).seconds;
      for (const PlannedAlgorithm& planned : plan.algorithms) {
        EXPECT_LE(recommended, planned.cost.seconds * 1.031) << Name(planned.algorithm);
      }
      EXPECT_FALSE(plan.reason.empty());
    }
  }
}

TEST(Plan, SumsANodesRanksBeforeTheySend) {
  PlanRequest request = Request(64 * kMiB, 32);
  request.ranks_per_node = 8;
  EXPECT_DOUBLE_EQ(CostIn(MakePlan(request), Algorithm::kRing).seconds,
                   CostIn(MakePlan(Request(64 * kMiB, 4)), Algorithm::kRing).seconds);
}

TEST(Plan, CallsTwiceTheSizeOverTheTimeTheEffectiveBandwidth) {
  for (const PlannedAlgorithm& planned : MakePlan(Request(64 * kMiB, 4)).algorithms) {
    EXPECT_DOUBLE_EQ(planned.effective_bandwidth, 2.0 * 64 * kMiB / planned.cost.seconds);
  }
}

TEST(PlannedStep, HidesWhatIsSentDuringTheBackwardPass) {
  PlanRequest request = Request(100 * kMiB, 4);
  request.compute_seconds = 1.0;
  const PlannedStep step = *MakePlan(request).step;
  EXPECT_DOUBLE_EQ(step.serial_seconds, step.compute_seconds + step.comm_seconds);
  // Only the last of four buckets is sent after the backward pass.
  EXPECT_NEAR(step.exposed_seconds, step.comm_seconds / 4, 1e-9);
  EXPECT_DOUBLE_EQ(step.overlapped_seconds, 1.0 + step.exposed_seconds);
}

TEST(PlannedStep, IsBoundByTheNetworkWhereThatIsSlower) {
  PlanRequest request = Request(1000 * kMiB, 4);
  request.compute_seconds = 0.03;
  const PlannedStep step = *MakePlan(request).step;
  const double first_ready = 0.01 + 0.02 / 40;  // forward, and the first bucket of 40
  EXPECT_NEAR(step.overlapped_seconds, first_ready + step.comm_seconds, 1e-9);
}

TEST(PlannedStep, OfNoGradientIsItsCompute) {
  PlanRequest request = Request(0, 4);
  request.compute_seconds = 0.5;
  const PlannedStep step = *MakePlan(request).step;
  EXPECT_EQ(step.comm_seconds, 0);
  EXPECT_EQ(step.overlapped_seconds, 0.5);
  EXPECT_FALSE(MakePlan(Request(1, 4)).step.has_value());
}

TEST(Plan, AdvisesWhatHelpsMostFirst) {
  const Plan large = MakePlan(Request(512 * kMiB, 4));
  ASSERT_GE(large.advice.size(), 2U);
  EXPECT_THAT(large.bottleneck, HasSubstr("the bandwidth of the nodes' links (100 % of the time)"));
  EXPECT_THAT(large.advice[0].what, HasSubstr("compression"));
  EXPECT_THAT(large.advice[1].what, HasSubstr("bandwidth"));
  const Plan small = MakePlan(Request(1024, 4));
  EXPECT_THAT(small.bottleneck, HasSubstr("the latency between nodes"));
  EXPECT_THAT(small.advice.front().what, HasSubstr("latency"));
  EXPECT_TRUE(MakePlan(Request(1024, 1)).advice.empty());
}

TEST(Plan, AddsWhatTheRanksOfANodeSendInside) {
  PlanRequest request = Request(64 * kMiB, 32);
  request.ranks_per_node = 8;
  const double outside = CostIn(MakePlan(request), Algorithm::kRing).seconds;
  request.inner = LinkModel{.latency_seconds = 1e-6, .bytes_per_second = 1e10};
  EXPECT_NEAR(CostIn(MakePlan(request), Algorithm::kRing).seconds - outside,
              2 * 1e-6 + 2 * 7.0 / 8 * 64 * kMiB / 1e10,
              1e-9);
  request.link.bytes_per_second = 1e12;
  const Plan plan = MakePlan(request);
  EXPECT_THAT(plan.bottleneck, HasSubstr("the links inside the nodes"));
  EXPECT_THAT(plan.advice.front().what, HasSubstr("inside the nodes"));
}

PlanRequest InRacks(std::uint64_t bytes, double oversubscription) {
  PlanRequest request = Request(bytes, 64);
  request.link.message_seconds = 1e-6;
  request.link.uplink = {
      .members = 16, .bytes_per_second = 16 * 25e9 / 8 / oversubscription, .latency_seconds = 2e-6};
  return request;
}

TEST(Plan, ComparesAHierarchyWhereRacksShareUplinks) {
  EXPECT_EQ(MakePlan(Request(kMiB, 64)).algorithms.size(), 6U);
  const Plan plan = MakePlan(InRacks(64 * kMiB, 8));
  ASSERT_EQ(plan.algorithms.size(), 7U);
  EXPECT_EQ(plan.algorithms.back().algorithm, Algorithm::kHierarchical);
  EXPECT_LT(plan.algorithms.back().cost.seconds, CostIn(plan, Algorithm::kDirect).seconds / 2);
  PlanRequest direct = InRacks(64 * kMiB, 8);
  direct.algorithm = Algorithm::kDirect;
  EXPECT_THAT(MakePlan(direct).bottleneck, HasSubstr("the uplinks of the racks"));
  EXPECT_THAT(MakePlan(direct).advice.front().what, HasSubstr("in place of direct"));
}

TEST(Plan, NamesLinksAndUplinksWhereBothBindAlike) {
  for (const std::uint32_t rack : {1U, 2U, 4U}) {
    PlanRequest request = Request(256 * kMiB, 8);
    request.link.uplink = {.members = rack, .bytes_per_second = request.link.bytes_per_second};
    const Plan plan = MakePlan(request);
    EXPECT_THAT(plan.bottleneck, HasSubstr("links and uplinks alike")) << rack;
    for (const Advice& advice : plan.advice) {
      EXPECT_THAT(advice.what, Not(HasSubstr("rails"))) << rack;
    }
    request.link.uplink.bytes_per_second /= 4;
    EXPECT_THAT(MakePlan(request).bottleneck, HasSubstr("the uplinks of the racks")) << rack;
  }
}

// They are not slower with one more, nor faster but for what stays inside a group.
TEST(Plan, RailsDoNotWidenUplinks) {
  PlanRequest request = Request(256 * kMiB, 8);
  request.link.uplink = {.members = 2, .bytes_per_second = request.link.bytes_per_second / 2};
  const Plan one = MakePlan(request);
  request.link.rails = 2;
  const Plan two = MakePlan(request);
  for (const Algorithm algorithm : {Algorithm::kRing,
                                    Algorithm::kDirect,
                                    Algorithm::kTree,
                                    Algorithm::kDoubleTree,
                                    Algorithm::kHalvingDoubling}) {
    EXPECT_NEAR(CostIn(two, algorithm).seconds / CostIn(one, algorithm).seconds, 1, 0.03)
        << Name(algorithm);
  }
}

TEST(Plan, UsesRailsWhereMessagesCanShareThem) {
  PlanRequest request = Request(512 * kMiB, 8);
  const double one = CostIn(MakePlan(request), Algorithm::kRing).seconds;
  request.link.rails = 4;
  EXPECT_NEAR(one / CostIn(MakePlan(request), Algorithm::kRing).seconds, 4, 0.02);
}

TEST(Plan, SimulatesWhatDoesNotTakeTooLong) {
  PlanRequest request = InRacks(16 * kMiB, 4);
  request.simulate = true;
  for (const PlannedAlgorithm& planned : MakePlan(request).algorithms) {
    ASSERT_TRUE(planned.simulated_seconds) << Name(planned.algorithm);
    const double expected = planned.algorithm == Algorithm::kNaive ? 0.5 : 1;  // cost.h
    EXPECT_NEAR(*planned.simulated_seconds / planned.cost.seconds, expected, 0.5)
        << Name(planned.algorithm);
  }
  request = Request(std::uint64_t{1} << 40, 1024);
  request.simulate = true;
  EXPECT_FALSE(MakePlan(request).algorithms.front().simulated_seconds);
}

TEST(Plan, WaitsForTheSlowestNode) {
  PlanRequest request = Request(64 * kMiB, 8);
  const double even = CostIn(MakePlan(request), Algorithm::kRing).seconds;
  request.link.slowest = 2;
  request.simulate = true;
  const Plan plan = MakePlan(request);
  EXPECT_NEAR(CostIn(plan, Algorithm::kRing).seconds / even, 2, 0.01);
  EXPECT_NEAR(*plan.algorithms.front().simulated_seconds / even, 2, 0.05);
  EXPECT_NE(
      std::find_if(plan.advice.begin(),
                   plan.advice.end(),
                   [](const Advice& advice) { return advice.what == "all nodes as fast as most"; }),
      plan.advice.end());
}

TEST(PlannedStep, HasAnAlgorithmForItsBuckets) {
  PlanRequest request = Request(1024 * kMiB, 512);
  request.link.message_seconds = 1e-6;
  request.compute_seconds = 1;
  request.bucket_bytes = kMiB;
  const Plan plan = MakePlan(request);
  EXPECT_EQ(plan.recommended, Algorithm::kRing);
  EXPECT_NE(plan.step->algorithm, Algorithm::kRing);
  EXPECT_NE(std::find_if(plan.advice.begin(),
                         plan.advice.end(),
                         [](const Advice& advice) { return advice.what.starts_with("larger"); }),
            plan.advice.end());
}

TEST(PlannedStep, SaysWhenComputeHidesTheNetwork) {
  PlanRequest request = Request(100 * kMiB, 4);
  request.compute_seconds = 10;
  EXPECT_THAT(MakePlan(request).bottleneck, HasSubstr("compute"));
}

TEST(Plan, RefusesTheImpossibleWithItsValue) {
  const auto problem = [](const std::function<void(PlanRequest&)>& spoil) {
    PlanRequest request = Request(kMiB, 12);
    spoil(request);
    return PlanProblem(request);
  };
  EXPECT_EQ(problem([](PlanRequest&) {}), "");
  EXPECT_THAT(problem([](PlanRequest& r) { r.ranks = 0; }), HasSubstr("ranks is 0"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.ranks_per_node = 5; }),
              HasSubstr("5; it must divide"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.ranks_per_node = 0; }), HasSubstr("per-node is 0"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.link.latency_seconds = -1; }), HasSubstr("latency"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.link.bytes_per_second = 0; }), HasSubstr("bandwidth"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.link.rails = 0; }), HasSubstr("rails is 0"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.link.slowest = 0.5; }), HasSubstr("slowest is 0.5"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.inner = LinkModel{}; }), HasSubstr("inner bandwidth"));
  EXPECT_THAT(problem([](PlanRequest& r) {
                r.link.uplink = {5, 1e9, 0};
              }),
              HasSubstr("nodes-per-rack is 5; it must divide the 12 nodes"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.link.uplink = {4, 0, 0}; }), HasSubstr("uplink is 0"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.algorithm = Algorithm::kHierarchical; }),
              HasSubstr("it needs nodes-per-rack"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.bytes_on_wire = 0; }), HasSubstr("wire"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.bucket_bytes = 0; }), HasSubstr("bucket"));
  EXPECT_THAT(problem([](PlanRequest& r) {
                r.bytes = 1 << 30;
                r.bucket_bytes = 1;
              }),
              HasSubstr("bucket is 1 bytes"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.compute_seconds = -2; }), HasSubstr("compute"));
  EXPECT_THAT(problem([](PlanRequest& r) { r.backward_share = 1.5; }), HasSubstr("1.5"));
}

}  // namespace
}  // namespace maypole::collective
