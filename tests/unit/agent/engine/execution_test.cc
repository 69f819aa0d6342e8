#include "agent/engine/execution.h"

#include "tests/unit/agent/engine/execution_group.h"

namespace maypole::agent {
namespace {

using collective::Algorithm;
using collective::Buffer;
using collective::Step;
using collective::StepKind;
using sim::Bytes;

constexpr std::uint64_t kTokenBase = ExecutionGroup::kTokenBase;
using Place = ExecutionGroup::Place;

// The expected bits are those of a sum in member order or round the ring. Algorithms with another
// order get what is exact in any.
DType DTypeFor(Algorithm algorithm, Reduction reduction, std::uint64_t seed) {
  const bool any_order = reduction == Reduction::kMin || reduction == Reduction::kMax;
  if (algorithm <= Algorithm::kNaive || any_order) {
    return static_cast<DType>(seed % kDTypeCount);
  }
  constexpr DType kIntegers[] = {DType::kI8, DType::kU8, DType::kI32, DType::kI64};
  return kIntegers[seed / kReductionCount % std::size(kIntegers)];
}

class ExecutionOfEachAlgorithmTest : public testing::TestWithParam<Algorithm> {};

TEST_P(ExecutionOfEachAlgorithmTest, GivesTheRightBitsInAnyOrderOfEvents) {
  std::uint32_t seed = 0;
  for (const std::uint32_t members : {1, 2, 3, 5}) {
    for (const ElementCount elements : {0U, 1U, members - 1, members, members + 1, 61U}) {
      for (const Place place : {Place::kInPlace, Place::kOverwrite, Place::kShared}) {
        const Reduction reduction = static_cast<Reduction>(seed % kReductionCount);
        const DType dtype = DTypeFor(GetParam(), reduction, seed);
        SCOPED_TRACE(testing::Message() << members << " members, " << elements << " elements of "
                                        << Name(dtype) << ", " << Name(reduction));
        ExecutionGroup group(GetParam(),
                             {.dtype = dtype, .reduction = reduction, .elements = elements},
                             members,
                             1 + seed % 3,
                             place,
                             seed);
        while (group.StepOnce()) {
        }
        group.ExpectResults();
        EXPECT_EQ(group.sends_waiting(), 0);
        EXPECT_EQ(group.scratch_in_use(), 0);
        ++seed;
      }
    }
  }
}

TEST_P(ExecutionOfEachAlgorithmTest, AbortedAnywhereItRestoresTheInputsOnceNothingReadsThem) {
  for (int steps = 0; steps < 120; ++steps) {
    ExecutionGroup group(GetParam(), {.elements = 29}, 3, 2, Place::kInPlace, 7);
    for (int i = 0; i < steps; ++i) {
      group.StepOnce();
    }
    if (group.execution(1).Succeeded()) {
      break;
    }
    group.Abort(1);
    while (!group.execution(1).Drained()) {
      // A receiver that has not begun to fetch has to be aborted too before the sends can end.
      if (!group.StepOnce()) {
        ASSERT_FALSE(group.execution(0).aborted());
        group.Abort(0);
        group.Abort(2);
      }
    }
    EXPECT_TRUE(group.execution(1).Restored());
    EXPECT_TRUE(group.InputsAreAsSubmitted(1)) << "after " << steps;
    while (group.StepOnce()) {
    }
    EXPECT_TRUE(group.InputsAreAsSubmitted(1)) << "after " << steps;
    if (group.execution(0).aborted()) {
      EXPECT_EQ(group.sends_waiting(), 0) << "after " << steps;
    }
    EXPECT_EQ(group.scratch_in_use(), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Algorithms,
                         ExecutionOfEachAlgorithmTest,
                         testing::Values(Algorithm::kRing,
                                         Algorithm::kDirect,
                                         Algorithm::kNaive,
                                         Algorithm::kTree,
                                         Algorithm::kDoubleTree,
                                         Algorithm::kHalvingDoubling),
                         [](const auto& of) { return std::string(Name(of.param)); });

// One execution by hand.
class ExecutionTest : public testing::Test {
 protected:
  std::unique_ptr<Execution> Make(collective::Schedule schedule, bool restorable = true) {
    ExecutionSpec spec;
    spec.plan = std::make_shared<Plan>(std::move(schedule));
    spec.world_size = 2;
    spec.locals.push_back(
        {.input = tensor_.view(), .output = tensor_.view(), .restorable = restorable});
    auto execution = std::make_unique<Execution>(std::move(spec), kTokenBase, memory_);
    execution->Start(out_);
    return execution;
  }

  static collective::Schedule Ring() {
    return collective::MakeSchedule(
        Algorithm::kRing, {.members = 2, .self = Member(0), .elements = 8, .slice_elements = 100});
  }

  template <typename T>
  std::vector<T> Taken() {
    std::vector<T> found;
    for (const Action& action : std::exchange(out_.actions, {})) {
      if (const T* wanted = std::get_if<T>(&action)) {
        found.push_back(*wanted);
      }
    }
    return found;
  }

  sim::Regions regions_;
  sim::SimMemory memory_{regions_};
  Bytes tensor_{8 * sizeof(float)};
  ExecutionOutput out_;
};

TEST_F(ExecutionTest, AFrameOfTheWrongSizeIsDropped) {
  const auto execution = Make(Ring());
  EXPECT_FALSE(execution->OnArrival(Member(1), 0, {77, 15, {}}, out_));
  EXPECT_EQ(Taken<DropPayload>().at(0).arrival, 77);
  EXPECT_TRUE(execution->OnArrival(Member(1), 0, {78, 16, {}}, out_));
  EXPECT_EQ(Taken<ReceivePayload>().at(0).arrival, 78);
}

TEST_F(ExecutionTest, AFrameThatNoStepWaitsForIsDropped) {
  const auto execution = Make(Ring());
  EXPECT_FALSE(execution->OnArrival(Member(1), 9, {77, 16, {}}, out_));
  EXPECT_FALSE(execution->OnArrival(Member(0), 0, {78, 16, {}}, out_));
  EXPECT_FALSE(execution->OnArrival(Member(1000), 0, {79, 16, {}}, out_));
  EXPECT_EQ(Taken<DropPayload>().size(), 3);
}

TEST_F(ExecutionTest, AFrameSentTwiceIsDroppedTheSecondTime) {
  const auto execution = Make(Ring());
  EXPECT_TRUE(execution->OnArrival(Member(1), 0, {77, 16, {}}, out_));
  EXPECT_FALSE(execution->OnArrival(Member(1), 0, {78, 16, {}}, out_));
  EXPECT_EQ(Taken<DropPayload>().at(0).arrival, 78);
}

TEST_F(ExecutionTest, AfterAnAbortFramesAreDroppedWithoutComplaint) {
  const auto execution = Make(Ring());
  execution->Abort(out_);
  EXPECT_TRUE(execution->OnArrival(Member(1), 0, {77, 16, {}}, out_));
  EXPECT_EQ(Taken<DropPayload>().at(0).arrival, 77);
}

TEST_F(ExecutionTest, ALoneRanksInputIsSentFromWhereItLies) {
  const auto execution = Make(Ring());
  ASSERT_EQ(out_.sends.size(), 1);
  EXPECT_EQ(out_.sends[0].payload.address, tensor_.data());
  EXPECT_EQ(memory_.scratch_in_use(), 1);  // for what a failure would have to undo
}

TEST_F(ExecutionTest, IsNotRestoredWhileASendReadsTheTensor) {
  const auto execution = Make(Ring());
  execution->Abort(out_);
  EXPECT_FALSE(execution->Restored());
  execution->OnTokenDone(out_.sends[0].token, false, out_);
  EXPECT_TRUE(execution->Restored());
  EXPECT_TRUE(execution->Drained());
}

TEST_F(ExecutionTest, ALoneAgentPutsNothingAside) {
  const auto execution =
      Make(collective::MakeSchedule(Algorithm::kRing, {.members = 1, .elements = 8}));
  for (const RunWork& run : Taken<RunWork>()) {
    EXPECT_TRUE(run.work.saves.empty());
  }
  EXPECT_EQ(memory_.scratch_in_use(), 0);
}

TEST_F(ExecutionTest, AnInputThatMayBeOverwrittenIsReceivedInto) {
  const auto execution = Make(Ring(), /*restorable=*/false);
  execution->OnArrival(Member(1), 1, {77, 16, {}}, out_);
  EXPECT_EQ(Taken<ReceivePayload>().at(0).target.address, tensor_.data());
  EXPECT_EQ(memory_.scratch_in_use(), 0);
}

TEST_F(ExecutionTest, AFailedTransferIsTold) {
  const auto execution = Make(Ring());
  EXPECT_FALSE(execution->transfer_failed());
  execution->OnTokenDone(out_.sends[0].token, false, out_);
  EXPECT_TRUE(execution->transfer_failed());
  EXPECT_FALSE(execution->Succeeded());
}

TEST_F(ExecutionTest, AwaitsThePeersWhoseFramesAreMissing) {
  const auto execution = Make(Ring());
  EXPECT_EQ(execution->AwaitedPeers(), std::vector{Member(1)});
  execution->OnArrival(Member(1), 0, {77, 16, {}}, out_);
  execution->OnArrival(Member(1), 1, {78, 16, {}}, out_);
  EXPECT_TRUE(execution->AwaitedPeers().empty());
}

// No maker has a receive into kPartial that must wait, but a schedule may.
TEST_F(ExecutionTest, APartialSumMayArriveBeforeItsTurn) {
  collective::Schedule schedule{.self = Member(0), .members = 2, .elements = 8};
  schedule.steps = {
      Step{.kind = StepKind::kSend, .peer = Member(1), .range = {0, 8}},
      Step{.kind = StepKind::kReceive,
           .target = Buffer::kPartial,
           .peer = Member(1),
           .range = {0, 8},
           .after = {0, collective::kNoStep}},
      Step{.kind = StepKind::kReduce, .range = {0, 8}, .after = {1, collective::kNoStep}}};
  const auto execution = Make(schedule);
  execution->OnArrival(Member(1), 0, {77, 32, {}}, out_);
  const auto receives = Taken<ReceivePayload>();
  ASSERT_EQ(receives.size(), 1);
  execution->OnTokenDone(receives[0].token, true, out_);
  EXPECT_TRUE(Taken<RunWork>().empty());
  execution->OnTokenDone(out_.sends[0].token, true, out_);
  EXPECT_EQ(Taken<RunWork>().size(), 1);
}

}  // namespace
}  // namespace maypole::agent
