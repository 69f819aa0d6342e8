// The bytes that separately built clients and agents share. A change here is a change of
// kClientProtocol.
#include <cstddef>

#include <gtest/gtest.h>

#include "proto/handshake.h"
#include "proto/segment_layout.h"

namespace maypole {
namespace {

TEST(Layout, OfTheControlHeaderIsThatOfProtocol3) {
  EXPECT_EQ(kClientProtocol, 3u);
  EXPECT_EQ(offsetof(ControlHeader, magic), 0u);
  EXPECT_EQ(offsetof(ControlHeader, protocol), 4u);
  EXPECT_EQ(offsetof(ControlHeader, slot_count), 8u);
  EXPECT_EQ(offsetof(ControlHeader, ring_entries), 12u);
  EXPECT_EQ(offsetof(ControlHeader, agent_sleeping), 64u);
  EXPECT_EQ(offsetof(ControlHeader, agent_beats), 72u);
  EXPECT_EQ(offsetof(ControlHeader, session_code), 128u);
  EXPECT_EQ(offsetof(ControlHeader, session_error_bytes), 132u);
  EXPECT_EQ(offsetof(ControlHeader, session_culprit_bytes), 134u);
  EXPECT_EQ(offsetof(ControlHeader, session_error), 136u);
  EXPECT_EQ(offsetof(ControlHeader, session_culprits), 648u);
  EXPECT_EQ(offsetof(ControlHeader, submit_tail), 832u);
  EXPECT_EQ(offsetof(ControlHeader, submit_ring), 896u);
  EXPECT_EQ(offsetof(ControlSegment, slots), 12288u);
  EXPECT_EQ(sizeof(ControlSegment), 12288u + 1024u * 1024u);
}

TEST(Layout, OfASlotIsThatOfProtocol3) {
  EXPECT_EQ(offsetof(Slot, state), 0u);
  EXPECT_EQ(offsetof(Slot, waiters), 4u);
  EXPECT_EQ(offsetof(Slot, request), 8u);
  EXPECT_EQ(offsetof(Slot, outcome), 352u);
  EXPECT_EQ(sizeof(SlotRequest), 344u);
  EXPECT_EQ(offsetof(SlotRequest, flags), 4u);
  EXPECT_EQ(offsetof(SlotRequest, priority), 8u);
  EXPECT_EQ(offsetof(SlotRequest, segment), 12u);
  EXPECT_EQ(offsetof(SlotRequest, offset), 16u);
  EXPECT_EQ(offsetof(SlotRequest, elements), 24u);
  EXPECT_EQ(offsetof(SlotRequest, timeout_ns), 32u);
  EXPECT_EQ(offsetof(SlotRequest, root), 40u);
  EXPECT_EQ(offsetof(SlotRequest, peer), 44u);
  EXPECT_EQ(offsetof(SlotRequest, output_offset), 48u);
  EXPECT_EQ(offsetof(SlotRequest, output_segment), 56u);
  EXPECT_EQ(offsetof(SlotRequest, counts_entries), 60u);
  EXPECT_EQ(offsetof(SlotRequest, counts_offset), 64u);
  EXPECT_EQ(offsetof(SlotRequest, counts_segment), 72u);
  EXPECT_EQ(offsetof(SlotRequest, reserved), 76u);
  EXPECT_EQ(offsetof(SlotRequest, name_bytes), 80u);
  EXPECT_EQ(offsetof(SlotRequest, name), 82u);
  EXPECT_EQ(sizeof(SlotOutcome), 664u);
  EXPECT_EQ(offsetof(SlotOutcome, result_segment), 8u);
  EXPECT_EQ(offsetof(SlotOutcome, error_bytes), 12u);
  EXPECT_EQ(offsetof(SlotOutcome, culprit_bytes), 14u);
  EXPECT_EQ(offsetof(SlotOutcome, code), 16u);
  EXPECT_EQ(offsetof(SlotOutcome, error), 24u);
  EXPECT_EQ(offsetof(SlotOutcome, culprits), 536u);
}

TEST(Layout, OfTheHandshakeIsThatOfProtocol3) {
  EXPECT_EQ(sizeof(Hello), 208u);
  EXPECT_EQ(offsetof(Hello, rank), 48u);
  EXPECT_EQ(offsetof(Hello, pid), 56u);
  EXPECT_EQ(offsetof(Hello, job), 80u);
  EXPECT_EQ(sizeof(HelloReply), 568u);
  EXPECT_EQ(sizeof(SessionReady), 704u);
  EXPECT_EQ(sizeof(AllocateRequest), 24u);
  EXPECT_EQ(sizeof(AllocateReply), 552u);
  EXPECT_EQ(sizeof(FreeRequest), 24u);
  EXPECT_EQ(sizeof(ResultRequest), 24u);
  EXPECT_EQ(sizeof(StatsReply), 96u);
  EXPECT_EQ(sizeof(Goodbye), 16u);
}

}  // namespace
}  // namespace maypole
