// The agent's side of the slot protocol against the client's, and against one that keeps no rule,
// in plain memory.
#include "agent/segment/slot_ring.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/src/slot_channel.h"

namespace maypole::agent {
namespace {

using client::internal::SlotChannel;
using testing::HasSubstr;

class SlotRingTest : public testing::Test {
 protected:
  // What a hostile client can do: anything to the shared bytes.
  void Enter(std::uint32_t slot, SlotState state) {
    ControlHeader& header = control_->header;
    if (slot < kSlotCount) {
      control_->slots[slot].state.store(static_cast<std::uint32_t>(state));
    }
    const std::uint64_t tail = header.submit_tail.load();
    header.submit_ring[tail % kRingEntries].store(slot);
    header.submit_tail.store(tail + 1);
  }

  std::unique_ptr<ControlSegment> control_ = std::make_unique<ControlSegment>();
  SlotRing ring_{*control_};
  int rings_ = 0;
  SlotChannel channel_{*control_, [this] { ++rings_; }};
};

TEST_F(SlotRingTest, ARequestArrivesAndItsOutcomeGoesBack) {
  SlotRequest request;
  request.elements = 17;
  const auto slot = channel_.Submit(request);
  ASSERT_TRUE(slot);
  EXPECT_FALSE(channel_.IsDone(*slot));
  const auto entry = ring_.Take();
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->slot, *slot);
  EXPECT_EQ(entry->request.elements, 17u);
  EXPECT_FALSE(ring_.Take());
  ring_.Complete(*slot, {ErrorCode::kTimeout, std::string(600, 'x'), "ranks=1"}, {});
  ASSERT_TRUE(channel_.IsDone(*slot));
  EXPECT_EQ(channel_.outcome(*slot).code, static_cast<std::uint32_t>(ErrorCode::kTimeout));
  EXPECT_EQ(channel_.outcome(*slot).error_bytes, kErrorTextBytes);
  EXPECT_EQ(channel_.outcome(*slot).culprit_bytes, 7u);
  EXPECT_EQ(ring_.violation(), "");
}

TEST_F(SlotRingTest, TheClientRingsOnlyWhileTheAgentSleeps) {
  channel_.Submit({});
  EXPECT_EQ(rings_, 0);
  EXPECT_TRUE(ring_.HasEntries());
  ring_.Arm();
  channel_.Submit({});
  EXPECT_EQ(rings_, 1);
  ring_.Disarm();
  channel_.Submit({});
  EXPECT_EQ(rings_, 1);
}

TEST_F(SlotRingTest, ManyMoreOpsThanEntriesPassThrough) {
  for (int i = 0; i < 5000; ++i) {
    SlotRequest request;
    request.flags = i % 3 == 0 ? kSlotSharedResult : 0u;
    const auto slot = channel_.Submit(request);
    ASSERT_TRUE(slot);
    ASSERT_TRUE(ring_.Take());
    ring_.Complete(*slot, {}, {3, 64, {}});
    if (i % 3 == 0) {
      EXPECT_EQ(channel_.outcome(*slot).result_segment, 3u);
      channel_.Give(*slot, SlotChannel::Release::kSlotAndResult);
      const auto release = ring_.Take();
      ASSERT_TRUE(release);
      EXPECT_TRUE(release->is_release);
    } else {
      EXPECT_EQ(channel_.outcome(*slot).result_segment, 0u);
      channel_.Give(*slot, SlotChannel::Release::kSlot);
    }
  }
  EXPECT_EQ(ring_.violation(), "");
}

TEST_F(SlotRingTest, ASlotWhoseResultIsNotGivenBackYetIsNotReused) {
  SlotRequest shared;
  shared.flags = kSlotSharedResult;
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    ASSERT_TRUE(channel_.Submit(shared));
    ASSERT_TRUE(ring_.Take());
  }
  for (std::uint32_t slot = 0; slot < kSlotCount; ++slot) {
    ring_.Complete(slot, {}, {});
    channel_.Give(slot, SlotChannel::Release::kSlotAndResult);
  }
  EXPECT_FALSE(channel_.Submit({}));
  ASSERT_TRUE(ring_.Take());
  EXPECT_TRUE(channel_.Submit({}));
}

TEST_F(SlotRingTest, AFailedOpHoldsNoResult) {
  SlotRequest shared;
  shared.flags = kSlotSharedResult;
  const auto slot = channel_.Submit(shared);
  ring_.Take();
  ring_.Complete(*slot, {ErrorCode::kPeerLost, "gone", ""}, {});
  channel_.Give(*slot, SlotChannel::Release::kSlot);
  EXPECT_TRUE(channel_.Submit(shared));
  EXPECT_TRUE(ring_.Take());
}

TEST_F(SlotRingTest, ALateOrDoubleCompletionIsIgnored) {
  ring_.Complete(3, {}, {});
  ring_.Complete(kSlotCount, {}, {});
  EXPECT_FALSE(channel_.IsDone(3));
  const auto slot = channel_.Submit({});
  ring_.Take();
  ring_.Complete(*slot, {}, {});
  ring_.Complete(*slot, {ErrorCode::kInternal, "again", ""}, {});
  EXPECT_EQ(channel_.outcome(*slot).code, 0u);
}

TEST_F(SlotRingTest, TheFirstReasonForTheEndOfASessionStays) {
  ring_.Fail({ErrorCode::kPeerLost, "rank 1 died", "ranks=1"});
  ring_.Fail({ErrorCode::kInternal, "later", ""});
  const Outcome outcome = channel_.SessionOutcome();
  EXPECT_EQ(outcome.code, ErrorCode::kPeerLost);
  EXPECT_EQ(outcome.text, "rank 1 died");
  EXPECT_EQ(outcome.culprits, "ranks=1");
}

TEST_F(SlotRingTest, ARequestThatChangesAfterItWasTakenChangesNothing) {
  SlotRequest request;
  request.elements = 1;
  const auto slot = channel_.Submit(request);
  const auto entry = ring_.Take();
  control_->slots[*slot].request.elements = 1u << 30;
  EXPECT_EQ(entry->request.elements, 1u);
}

TEST_F(SlotRingTest, ASlotOutsideTheTableIsAViolation) {
  Enter(kSlotCount, SlotState::kSubmitted);
  EXPECT_FALSE(ring_.Take());
  EXPECT_THAT(ring_.violation(), HasSubstr("slot 1024 of 1024"));
  EXPECT_FALSE(ring_.HasEntries());
}

TEST_F(SlotRingTest, ATailThatJumpsIsAViolation) {
  control_->header.submit_tail.store(kRingEntries + 1);
  EXPECT_FALSE(ring_.Take());
  EXPECT_THAT(ring_.violation(), HasSubstr("jumped from 0 to 2049"));
}

TEST_F(SlotRingTest, ATailThatGoesBackIsAViolation) {
  Enter(0, SlotState::kSubmitted);
  ASSERT_TRUE(ring_.Take());
  control_->header.submit_tail.store(0);
  EXPECT_FALSE(ring_.Take());
  EXPECT_THAT(ring_.violation(), HasSubstr("jumped from 1 to 0"));
}

TEST_F(SlotRingTest, EnteringASlotThatIsInFlightIsAViolation) {
  Enter(0, SlotState::kSubmitted);
  Enter(0, SlotState::kSubmitted);
  ASSERT_TRUE(ring_.Take());
  EXPECT_FALSE(ring_.Take());
  EXPECT_THAT(ring_.violation(), HasSubstr("slot 0"));
}

TEST_F(SlotRingTest, ReleasingWhatIsNotHeldIsAViolation) {
  Enter(4, SlotState::kReleased);
  EXPECT_FALSE(ring_.Take());
  EXPECT_THAT(ring_.violation(), HasSubstr("slot 4 in state 3"));
}

}  // namespace
}  // namespace maypole::agent
