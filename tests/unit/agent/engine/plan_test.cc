#include "agent/engine/plan.h"

#include "agent/engine/plan_cache.h"
#include "collective/make.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using collective::Algorithm;
using collective::Buffer;
using collective::kNoStep;
using collective::Step;
using collective::StepIndex;
using collective::StepKind;

class PlanOfEachAlgorithmTest : public testing::TestWithParam<Algorithm> {
 protected:
  static Plan Make(std::uint32_t members, std::uint32_t self, ElementCount elements) {
    return Plan(collective::MakeSchedule(
        GetParam(),
        {.members = members, .self = Member(self), .elements = elements, .slice_elements = 4}));
  }
};

TEST_P(PlanOfEachAlgorithmTest, CountsDependenciesAndDependentsAlike) {
  const Plan plan = Make(4, 2, 37);
  std::vector<std::uint32_t> counted(plan.size());
  for (StepIndex i = 0; i < plan.size(); ++i) {
    for (const StepIndex dependent : plan.Dependents(i)) {
      EXPECT_THAT(plan.step(dependent).after, testing::Contains(i));
      ++counted[dependent];
    }
  }
  for (StepIndex i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(counted[i], plan.Dependencies(i)) << i;
  }
}

TEST_P(PlanOfEachAlgorithmTest, FindsTheReceiveOfEveryFrame) {
  const Plan plan = Make(3, 1, 20);
  std::size_t receives = 0;
  for (StepIndex i = 0; i < plan.size(); ++i) {
    const Step& step = plan.step(i);
    if (step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
      EXPECT_EQ(plan.ReceiveOf(step.peer, step.ordinal), i);
      ++receives;
    }
  }
  EXPECT_GT(receives, 0);
  EXPECT_EQ(plan.ReceiveOf(Member(0), 1000), kNoStep);
  EXPECT_EQ(plan.ReceiveOf(Member(1), 0), kNoStep);  // itself
  EXPECT_EQ(plan.ReceiveOf(Member(3), 0), kNoStep);  // no member
}

TEST_P(PlanOfEachAlgorithmTest, EveryReaderHasAWriterOfItsRangeBeforeIt) {
  const Plan plan = Make(5, 3, 64);
  std::vector<std::uint32_t> readers(plan.size());
  for (StepIndex i = 0; i < plan.size(); ++i) {
    const Step& step = plan.step(i);
    const bool reads = step.kind == StepKind::kReduce ||
                       (step.kind != StepKind::kReceive && step.source != Buffer::kInput);
    const StepIndex writer = plan.WriterOf(i);
    ASSERT_EQ(reads, writer != kNoStep) << i;
    if (reads) {
      EXPECT_LT(writer, i);
      EXPECT_EQ(plan.step(writer).range, step.range);
      EXPECT_NE(plan.step(writer).kind, StepKind::kSend);
      ++readers[writer];
    }
  }
  for (StepIndex i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan.ReadersOf(i), readers[i]) << i;
  }
}

TEST_P(PlanOfEachAlgorithmTest, NoElementsNoSteps) {
  EXPECT_EQ(Make(3, 0, 0).size(), 0);
}

INSTANTIATE_TEST_SUITE_P(Algorithms,
                         PlanOfEachAlgorithmTest,
                         testing::Values(Algorithm::kRing,
                                         Algorithm::kDirect,
                                         Algorithm::kNaive,
                                         Algorithm::kTree,
                                         Algorithm::kDoubleTree,
                                         Algorithm::kHalvingDoubling),
                         [](const auto& of) { return std::string(Name(of.param)); });

collective::Shape ShapeOf(ElementCount elements) {
  return {.members = 2, .self = Member(0), .elements = elements, .slice_elements = 1};
}

TEST(PlanCacheTest, MakesAShapeOnce) {
  PlanCache cache(1000);
  const auto first = cache.Get(Algorithm::kRing, ShapeOf(4));
  EXPECT_EQ(cache.Get(Algorithm::kRing, ShapeOf(4)), first);
  EXPECT_NE(cache.Get(Algorithm::kDirect, ShapeOf(4)), first);
  EXPECT_NE(cache.Get(Algorithm::kRing, ShapeOf(5)), first);
}

TEST(PlanCacheTest, ForgetsTheLeastRecentlyUsedAndKeepsWhatIsInUse) {
  PlanCache cache(200);
  const auto used = cache.Get(Algorithm::kRing, ShapeOf(4));
  const std::weak_ptr<const Plan> unused = cache.Get(Algorithm::kRing, ShapeOf(6));
  cache.Get(Algorithm::kRing, ShapeOf(100));
  EXPECT_TRUE(unused.expired());
  EXPECT_EQ(used->schedule().elements, 4);
  EXPECT_NE(cache.Get(Algorithm::kRing, ShapeOf(4)), used);
}

TEST(PlanCacheTest, PlansWithoutStepsAreBoundedToo) {
  PlanCache cache(1000);
  collective::Shape shape = ShapeOf(0);
  const std::weak_ptr<const Plan> oldest = cache.Get(Algorithm::kRing, shape);
  EXPECT_EQ(oldest.lock()->size(), 0);
  for (int i = 0; i < 20; ++i) {
    ++shape.slice_elements;
    cache.Get(Algorithm::kRing, shape);
  }
  EXPECT_TRUE(oldest.expired());
}

}  // namespace
}  // namespace maypole::agent
