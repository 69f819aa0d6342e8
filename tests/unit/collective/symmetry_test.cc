#include "collective/symmetry.h"

#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collective/hierarchical.h"
#include "collective/make.h"
#include "collective/simulate.h"
#include "tests/unit/collective/algorithms.h"
#include "tests/unit/collective/networks.h"

namespace maypole::collective {
namespace {

constexpr std::uint32_t kLarger[] = {24, 32, 48, 64};

std::vector<std::uint32_t> Sizes() {
  std::vector<std::uint32_t> sizes(std::begin(kLarger), std::end(kLarger));
  for (std::uint32_t members = 1; members <= 17; ++members) {
    sizes.push_back(members);
  }
  return sizes;
}

Shape ShapeFor(std::uint32_t members, ElementCount elements) {
  Shape shape = {.members = members, .elements = elements, .slice_elements = 1000};
  if (members % 4 == 0 && members > 4) {
    shape.levels = EvenLevels({4, members / 4}, {Algorithm::kRing, Algorithm::kHalvingDoubling});
  }
  return shape;
}

std::vector<Algorithm> AlgorithmsFor(const Shape& shape) {
  std::vector<Algorithm> algorithms(kFlatAlgorithms.begin(), kFlatAlgorithms.end());
  if (shape.members > 32) {
    std::erase(algorithms, Algorithm::kNaive);  // its steps are too many
  }
  if (!shape.levels.empty()) {
    algorithms.push_back(Algorithm::kHierarchical);
  }
  return algorithms;
}

Step Renamed(Step step, const Symmetry& symmetry, Member self) {
  step.peer = symmetry.SeenBy(self, step.peer);
  return step;
}

bool Alike(const Step& left, const Step& right) {
  const bool local = left.kind == StepKind::kReduce || left.kind == StepKind::kCopy;
  return left.kind == right.kind && left.source == right.source && left.target == right.target &&
         (local || left.peer == right.peer) && left.range.size() == right.range.size() &&
         left.after == right.after && left.ordinal == right.ordinal;
}

// What a member sends in its order, and what it takes from whom: all that a network sees where sums
// take no time.
using Traffic = std::map<std::pair<bool, std::uint32_t>, std::vector<ElementCount>>;

Traffic TrafficOf(const Schedule& schedule, const Symmetry& symmetry) {
  Traffic traffic;
  for (Step step : schedule.steps) {
    step = Renamed(step, symmetry, schedule.self);
    const bool send = step.kind == StepKind::kSend;
    if (send || step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
      traffic[{send, step.peer.value()}].push_back(step.range.size());
    }
  }
  return traffic;
}

TEST(Symmetry, RenamesTheStepsOfARepresentativeIntoThoseThatTheMakerMakes) {
  std::uint32_t symmetric = 0;
  for (const std::uint32_t members : Sizes()) {
    const Shape shape = ShapeFor(members, 2500 * members);
    for (const Algorithm algorithm : AlgorithmsFor(shape)) {
      SCOPED_TRACE(testing::Message() << Name(algorithm) << " of " << members);
      const Symmetry symmetry = FindSymmetry(algorithm, shape, {.link = kLink});
      symmetric += symmetry.period < members ? 1 : 0;
      const auto schedules = MakeSchedules(algorithm, shape);
      for (const Schedule& schedule : schedules) {
        const Schedule& stands_for = schedules[symmetry.RepresentativeOf(schedule.self).value()];
        ASSERT_EQ(TrafficOf(schedule, symmetry), TrafficOf(stands_for, symmetry));
        if (algorithm == Algorithm::kDirect || algorithm == Algorithm::kNaive ||
            algorithm == Algorithm::kHierarchical) {
          continue;  // sums are in the order of members, or units in that of the tensor
        }
        ASSERT_EQ(schedule.steps.size(), stands_for.steps.size());
        for (std::size_t index = 0; index < schedule.steps.size(); ++index) {
          ASSERT_TRUE(Alike(Renamed(schedule.steps[index], symmetry, schedule.self),
                            stands_for.steps[index]))
              << "member " << schedule.self << " step " << index;
        }
      }
    }
  }
  EXPECT_GE(symmetric, 60U);
}

void ExpectSameTimes(const Shape& shape, const Network& network, double flat_tolerance) {
  for (const Algorithm algorithm : AlgorithmsFor(shape)) {
    SCOPED_TRACE(testing::Message() << Name(algorithm) << " of " << shape.members);
    const double tolerance = algorithm == Algorithm::kHierarchical ? 0.1 : flat_tolerance;
    const Simulation few = SimulateAllReduce(algorithm, shape, network);
    const Simulation all = Simulate(MakeSchedules(algorithm, shape), network);
    ASSERT_TRUE(few.finished) << few.problem;
    EXPECT_NEAR(few.seconds, all.seconds, tolerance * all.seconds);
    EXPECT_EQ(few.rounds, all.rounds);
    const Symmetry symmetry = FindSymmetry(algorithm, shape, network);
    for (std::uint32_t member = 0; member < shape.members; ++member) {
      const std::uint32_t stands_for = symmetry.RepresentativeOf(Member(member)).value();
      ASSERT_EQ(few.bytes_sent[stands_for], all.bytes_sent[member]);
      ASSERT_EQ(few.bytes_received[stands_for], all.bytes_received[member]);
    }
  }
}

TEST(Symmetry, LeavesTheSimulatedTimeAsItIs) {
  for (const std::uint32_t members : Sizes()) {
    for (const ElementCount elements : {ElementCount{members}, ElementCount{2500} * members}) {
      const Shape shape = ShapeFor(members, elements);
      // Ties are broken otherwise, which matters where messages meet on uplinks.
      ExpectSameTimes(shape, {.link = kLink}, 0.01);
      ExpectSameTimes(shape, {.link = WithRails(3)}, 0.01);
      ExpectSameTimes(shape, SlowMembers(members, 4), 0.03);
      ExpectSameTimes(shape, FatTree(members, 4, 4), 0.1);
    }
  }
}

TEST(Symmetry, IsNoneWhereChunksOrMembersDiffer) {
  const auto period = [](Algorithm algorithm, const Shape& shape, const Network& network) {
    return FindSymmetry(algorithm, shape, network).period;
  };
  const Network star = {.link = kLink};
  EXPECT_EQ(period(Algorithm::kRing, {.members = 8, .elements = 80}, star), 1U);
  EXPECT_EQ(period(Algorithm::kRing, {.members = 8, .elements = 81}, star), 8U);
  EXPECT_EQ(period(Algorithm::kTree, {.members = 8, .elements = 80}, star), 8U);
  EXPECT_EQ(period(Algorithm::kHalvingDoubling, {.members = 12, .elements = 96}, star), 12U);
  EXPECT_EQ(period(Algorithm::kRing, {.members = 12, .elements = 96}, FatTree(12, 4, 2)), 4U);
  EXPECT_EQ(period(Algorithm::kRing, {.members = 12, .elements = 96}, FatTree(12, 5, 2)), 12U);
  EXPECT_EQ(period(Algorithm::kRing, {.members = 12, .elements = 96}, SlowMembers(12, 6)), 6U);
  EXPECT_EQ(period(Algorithm::kRing, {.members = 12, .elements = 96}, SlowMembers(12, 12)), 12U);
  Network path = star;
  path.paths[{Member(0), Member(1)}] = kLink;
  EXPECT_EQ(period(Algorithm::kRing, {.members = 8, .elements = 80}, path), 8U);
}

TEST(Simulation, Of4096MembersRunsTheSameSchedules) {
  Shape shape = {.members = 4096, .elements = 4096 * 128, .slice_elements = 1 << 17};
  shape.levels = EvenLevels({32, 128}, {Algorithm::kRing, Algorithm::kHalvingDoubling});
  for (const Algorithm algorithm : {Algorithm::kRing,
                                    Algorithm::kDirect,
                                    Algorithm::kTree,
                                    Algorithm::kDoubleTree,
                                    Algorithm::kHalvingDoubling}) {
    const Simulation simulation =
        SimulateAllReduce(algorithm, shape, {.link = kLink}, {.window = 4096});
    ASSERT_TRUE(simulation.finished) << simulation.problem;
    const Cost cost = PredictAllReduce(algorithm, shape.elements * 4, shape.members, kLink);
    EXPECT_EQ(simulation.rounds, cost.rounds) << Name(algorithm);
    EXPECT_NEAR(simulation.seconds / cost.seconds, 1, 0.3) << Name(algorithm);
  }
  EXPECT_EQ(SimulateAllReduce(Algorithm::kHierarchical, shape, FatTree(4096, 32, 4)).rounds,
            2 * 31U + 2 * 7U);
}

}  // namespace
}  // namespace maypole::collective
