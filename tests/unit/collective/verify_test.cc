// The verifier must see every kind of fault: right schedules are broken in one place each.

#include "collective/verify.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collective/make.h"
#include "collective/print.h"
#include "tests/unit/collective/algorithms.h"

namespace maypole::collective {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Uneven groups of members, which only the hierarchical algorithm looks at.
std::vector<Schedule> Made(Algorithm algorithm) {
  return MakeSchedules(algorithm,
                       {.members = 4,
                        .elements = 16,
                        .slice_elements = 2,
                        .levels = {{{1, 3}, Algorithm::kRing}, {{2}, Algorithm::kTree}}});
}

std::string ProblemOf(const std::vector<Schedule>& schedules) {
  const Verdict verdict = VerifySchedules(schedules);
  EXPECT_EQ(verdict.ok, verdict.problem.empty());
  EXPECT_TRUE(verdict.ok || verdict.sums.empty());
  return verdict.problem;
}

// The first step of `schedule` that `wanted` accepts.
Step& Find(Schedule& schedule, const std::function<bool(const Step&)>& wanted) {
  for (Step& step : schedule.steps) {
    if (wanted(step)) {
      return step;
    }
  }
  ADD_FAILURE() << "no such step in " << Print(schedule);
  return schedule.steps.front();
}

void Renumber(Schedule& schedule) {
  std::vector<std::uint32_t> sends(schedule.members);
  std::vector<std::uint32_t> receives(schedule.members);
  for (Step& step : schedule.steps) {
    if (step.kind == StepKind::kSend) {
      step.ordinal = sends[step.peer.value()]++;
    } else if (step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
      step.ordinal = receives[step.peer.value()]++;
    }
  }
}

// Two members that each send their whole input and sum what arrives.
std::vector<Schedule> Exchange() {
  return MakeSchedules(Algorithm::kNaive, {.members = 2, .elements = 2, .slice_elements = 2});
}

TEST(Verifier, AcceptsWhatTheMakersMake) {
  for (const Algorithm algorithm : kAlgorithms) {
    EXPECT_EQ(ProblemOf(Made(algorithm)), "");
  }
}

TEST(Verifier, RefusesNoSchedules) {
  EXPECT_NE(ProblemOf({}), "");
}

TEST(Verifier, SeesAMemberThatIsAnother) {
  auto schedules = Made(Algorithm::kRing);
  std::swap(schedules[1], schedules[2]);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("says that it is member 2"));
}

TEST(Verifier, SeesMembersOfDifferentTensors) {
  auto schedules = Made(Algorithm::kRing);
  schedules[3].elements = 17;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("members 0 and 3 disagree"));
}

TEST(Verifier, SeesEmptyAndOutlyingRanges) {
  auto schedules = Made(Algorithm::kRing);
  schedules[0].steps[0].range = {3, 3};
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("empty"));
  schedules[0].steps[0].range = {15, 17};
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("not inside 16"));
}

TEST(Verifier, SeesImpossiblePeers) {
  auto schedules = Made(Algorithm::kRing);
  schedules[2].steps[0].peer = Member(2);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("peer that is itself"));
  schedules[2].steps[0].peer = Member(4);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("does not exist"));
}

TEST(Verifier, SeesAWaitForALaterStep) {
  auto schedules = Made(Algorithm::kRing);
  schedules[0].steps[3].after = {3, kNoStep};
  EXPECT_THAT(ProblemOf(schedules), AllOf(HasSubstr("member 0 step 3"), HasSubstr("not before")));
}

TEST(Verifier, SeesAWrongOrdinal) {
  auto schedules = Made(Algorithm::kRing);
  ++schedules[1].steps[0].ordinal;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("wrong ordinal"));
}

TEST(Verifier, SeesAWriteToTheInput) {
  auto schedules = Made(Algorithm::kRing);
  Find(schedules[0], [](const Step& step) { return step.kind == StepKind::kReceive; }).target =
      Buffer::kInput;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("writes the input"));
}

TEST(Verifier, SeesADroppedReceive) {
  auto schedules = Made(Algorithm::kRing);
  auto& steps = schedules[1].steps;
  ASSERT_EQ(steps.back().kind, StepKind::kReceive);
  steps.pop_back();
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("has no counterpart"));
}

TEST(Verifier, SeesASendToAnotherPeer) {
  auto schedules = Made(Algorithm::kRing);
  schedules[1].steps[0].peer = Member(3);
  Renumber(schedules[1]);
  EXPECT_NE(ProblemOf(schedules), "");
}

TEST(Verifier, SeesSwappedRanges) {
  auto schedules = Made(Algorithm::kRing);
  auto& steps = schedules[0].steps;
  ASSERT_EQ(steps[0].kind, steps[2].kind);
  std::swap(steps[0].range, steps[2].range);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("different ranges"));
}

TEST(Verifier, SeesUnfinishedElementsTakenForFinished) {
  auto schedules = Made(Algorithm::kRing);
  Find(schedules[0], [](const Step& step) { return step.source == Buffer::kResult; }).source =
      Buffer::kPartial;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("takes unfinished elements"));
}

TEST(Verifier, SeesFinishedElementsTakenForUnfinished) {
  auto schedules = Made(Algorithm::kRing);
  Find(schedules[0], [](const Step& step) {
    return step.kind == StepKind::kSend && step.source == Buffer::kPartial;
  }).source = Buffer::kResult;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("takes finished elements"));
}

TEST(Verifier, SeesACircleOfWaits) {
  auto schedules = Made(Algorithm::kRing);
  // Everybody sends only once something has arrived.
  for (Schedule& schedule : schedules) {
    std::swap(schedule.steps[0], schedule.steps[1]);
    schedule.steps[1].after = {0, kNoStep};
    for (Step& step : schedule.steps) {
      if (step.after[0] == 1 && &step != &schedule.steps[1]) {
        step.after[0] = 0;
      }
    }
  }
  EXPECT_THAT(ProblemOf(schedules), AllOf(HasSubstr("no step can go on"), HasSubstr("waits for")));
}

TEST(Verifier, SeesACircleThatOnlyRendezvousCloses) {
  // Both receive only when their own send is over, which for large messages is when it has been
  // received.
  auto schedules = Exchange();
  for (Schedule& schedule : schedules) {
    ASSERT_EQ(schedule.steps[0].kind, StepKind::kSend);
    schedule.steps[1].after = {0, kNoStep};
  }
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("no step can go on"));
}

TEST(Verifier, SeesAMissingWaitBeforeASend) {
  auto schedules = Made(Algorithm::kRing);
  Find(schedules[2], [](const Step& step) {
    return step.kind == StepKind::kSend && step.source == Buffer::kPartial;
  }).after = {kNoStep, kNoStep};
  EXPECT_NE(ProblemOf(schedules), "");
}

TEST(Verifier, SeesEveryMissingWait) {
  for (const Algorithm algorithm : kAlgorithms) {
    const auto schedules = Made(algorithm);
    for (std::size_t index = 0; index < schedules[1].steps.size(); ++index) {
      for (std::size_t slot = 0; slot < 2; ++slot) {
        if (schedules[1].steps[index].after[slot] != kNoStep) {
          auto broken = schedules;
          broken[1].steps[index].after[slot] = kNoStep;
          EXPECT_NE(ProblemOf(broken), "")
              << Name(algorithm) << " without wait " << slot << " of step " << index << " in\n"
              << Print(schedules[1]);
        }
      }
    }
  }
}

TEST(Verifier, SeesAPartialSumThatNobodyWrote) {
  auto schedules = Made(Algorithm::kRing);
  schedules[0].steps[0].source = Buffer::kPartial;
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("which nothing has written"));
}

TEST(Verifier, SeesAContributionCountedTwice) {
  auto schedules = Made(Algorithm::kDirect);
  Step& reduce = Find(schedules[0], [](const Step& step) {
    return step.kind == StepKind::kReceiveReduce && step.target == Buffer::kPartial;
  });
  const StepIndex first = static_cast<StepIndex>(&reduce - schedules[0].steps.data());
  Step& second = schedules[0].steps[first + 1];
  ASSERT_EQ(second.source, Buffer::kPartial);
  second.source = Buffer::kInput;  // its own again, and the sum so far is lost
  EXPECT_NE(ProblemOf(schedules), "");
}

TEST(Verifier, SeesAMemberWhoseInputIsAddedTwice) {
  auto schedules = Exchange();
  // Member 1 receives, adds its own, and adds it once more.
  auto& steps = schedules[1].steps;
  ASSERT_EQ(steps.back().kind, StepKind::kReduce);
  Step again = steps.back();
  steps.back().target = Buffer::kPartial;
  again.after = {static_cast<StepIndex>(steps.size() - 1), 0};
  steps.push_back(again);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("counts member 1 twice"));
}

TEST(Verifier, SeesAResultWrittenTooEarly) {
  auto schedules = Made(Algorithm::kDirect);
  Find(schedules[0], [](const Step& step) {
    return step.kind == StepKind::kReceiveReduce && step.target == Buffer::kPartial;
  }).target = Buffer::kResult;
  EXPECT_THAT(ProblemOf(schedules), AllOf(HasSubstr("not complete"), HasSubstr("lacks member")));
}

TEST(Verifier, SeesAResultWrittenTwice) {
  auto schedules = MakeSchedules(Algorithm::kDirect, {.members = 2, .elements = 1});
  Step send = schedules[0].steps.back();
  Step receive = schedules[1].steps.back();
  ASSERT_EQ(send.kind, StepKind::kSend);
  ASSERT_EQ(receive.kind, StepKind::kReceive);
  ++send.ordinal;
  ++receive.ordinal;
  receive.after = {static_cast<StepIndex>(schedules[1].steps.size() - 1), kNoStep};
  schedules[0].steps.push_back(send);
  schedules[1].steps.push_back(receive);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("again after"));
}

TEST(Verifier, SeesAResultThatIsNotWritten) {
  auto schedules = MakeSchedules(Algorithm::kRing, {.members = 1, .elements = 2});
  schedules[0].steps.clear();
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("never writes result[0,2)"));
}

TEST(Verifier, SeesAResultWrittenOverAnInputThatIsStillSent) {
  // Member 0 does not wait for its send: with the result in place, member 1 may receive the sum.
  auto schedules = Exchange();
  Step& finish = schedules[0].steps.back();
  ASSERT_EQ(finish.kind, StepKind::kReceiveReduce);
  finish.after = {kNoStep, kNoStep};
  EXPECT_THAT(ProblemOf(schedules),
              AllOf(HasSubstr("writes over input[0,2) without waiting for member 0 step 0"),
                    HasSubstr("which reads it")));
}

TEST(Verifier, SeesAnInputReadAfterItsResult) {
  auto schedules = MakeSchedules(Algorithm::kRing, {.members = 1, .elements = 2});
  schedules[0].steps.push_back(
      {.target = Buffer::kPartial, .range = {0, 2}, .after = {0, kNoStep}});
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("may have written the result in its place"));
}

TEST(Verifier, SeesAPartialSumReadAsAnotherRange) {
  auto schedules = MakeSchedules(Algorithm::kRing, {.members = 3, .elements = 6});
  // Member 1 passes the chunk of member 0 on in two halves, which member 2 expects.
  const auto split = [](Schedule& schedule, const std::function<bool(const Step&)>& wanted) {
    Step& step = Find(schedule, wanted);
    const auto index = &step - schedule.steps.data();
    Step second = step;
    const ElementCount middle = step.range.begin + 1;
    step.range.end = middle;
    second.range.begin = middle;
    for (Step& later : schedule.steps) {
      for (StepIndex& before : later.after) {
        before += before != kNoStep && before > static_cast<StepIndex>(index) ? 1 : 0;
      }
    }
    schedule.steps.insert(schedule.steps.begin() + index + 1, second);
    Renumber(schedule);
  };
  split(schedules[1], [](const Step& step) {
    return step.kind == StepKind::kSend && step.source == Buffer::kPartial;
  });
  split(schedules[2], [](const Step& step) {
    return step.kind == StepKind::kReceiveReduce && step.target == Buffer::kResult;
  });
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("as another range than written"));
}

TEST(Verifier, SeesAReaderListedBeforeItsWriter) {
  // Member 1 sends a partial sum when a message has come back that says that it is written.
  std::vector<Schedule> schedules(2);
  for (std::uint32_t member = 0; member < 2; ++member) {
    schedules[member] = {.self = Member(member), .members = 2, .elements = 4};
  }
  const Member zero(0);
  const Member one(1);
  schedules[0].steps = {
      {.kind = StepKind::kReceive, .target = Buffer::kPartial, .peer = one, .range = {0, 2}},
      {.kind = StepKind::kReceive, .target = Buffer::kPartial, .peer = one, .range = {3, 4}},
      {.kind = StepKind::kSend, .peer = one, .range = {2, 3}, .after = {1, kNoStep}}};
  schedules[1].steps = {
      {.kind = StepKind::kReceive, .target = Buffer::kPartial, .peer = zero, .range = {2, 3}},
      {.kind = StepKind::kSend,
       .source = Buffer::kPartial,
       .peer = zero,
       .range = {0, 2},
       .after = {0, kNoStep}},
      {.kind = StepKind::kCopy, .target = Buffer::kPartial, .range = {0, 2}},
      {.kind = StepKind::kSend, .peer = zero, .range = {3, 4}, .after = {2, kNoStep}}};
  Renumber(schedules[0]);
  Renumber(schedules[1]);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("stands before its writer in the list"));
}

TEST(Verifier, SeesDifferentAssociations) {
  // Members 0 and 2 sum for themselves, one of them in another order.
  auto schedules =
      MakeSchedules(Algorithm::kNaive, {.members = 3, .elements = 1, .slice_elements = 1});
  auto& steps = schedules[0].steps;
  Step& first =
      Find(schedules[0], [](const Step& step) { return step.kind == StepKind::kReceiveReduce; });
  Step& second = steps.back();
  ASSERT_EQ(second.kind, StepKind::kReceiveReduce);
  std::swap(first.peer, second.peer);
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("different sums"));
}

TEST(Verifier, SeesAPartialSumThatNobodyUses) {
  auto schedules = MakeSchedules(Algorithm::kRing, {.members = 1, .elements = 2});
  schedules[0].steps.push_back(
      {.kind = StepKind::kCopy, .target = Buffer::kPartial, .range = {0, 2}});
  std::swap(schedules[0].steps[0], schedules[0].steps[1]);
  schedules[0].steps[1].after = {0, kNoStep};
  EXPECT_THAT(ProblemOf(schedules), HasSubstr("nothing reads"));
}

// No single step can be left out of a right schedule, whatever it does.
TEST(Verifier, SeesEveryMissingStep) {
  for (const Algorithm algorithm : kAlgorithms) {
    const auto schedules = Made(algorithm);
    for (std::size_t index = 0; index < schedules[2].steps.size(); ++index) {
      auto broken = schedules;
      auto& steps = broken[2].steps;
      steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
      for (Step& step : steps) {
        for (StepIndex& before : step.after) {
          if (before == index) {
            before = kNoStep;
          } else if (before != kNoStep && before > index) {
            --before;
          }
        }
      }
      Renumber(broken[2]);
      EXPECT_NE(ProblemOf(broken), "") << Name(algorithm) << " without step " << index;
    }
  }
}

}  // namespace
}  // namespace maypole::collective
