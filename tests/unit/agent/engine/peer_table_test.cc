#include "agent/engine/peer_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maypole::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr TimePoint kStart{seconds(100)};

class PeerTableTest : public testing::Test {
 protected:
  PeerId NewPeer(const std::string& node = "b",
                 std::uint64_t incarnation = 1,
                 std::uint64_t generation = 0) {
    return table_.Ensure({.node = node,
                          .incarnation = incarnation,
                          .host = "",
                          .data_address = "address of " + node,
                          .ranks = {}},
                         generation,
                         kStart,
                         actions_);
  }

  void Queue(PeerId peer,
             TransferToken token,
             std::uint64_t bytes,
             std::int32_t priority = 0,
             std::uint64_t order = 0) {
    table_.QueueData(peer,
                     {.priority = priority,
                      .op_order = order,
                      .header = {},
                      .payload = {.address = nullptr, .bytes = bytes},
                      .token = token},
                     actions_);
  }

  std::vector<TransferToken> Sent() {
    std::vector<TransferToken> tokens;
    for (const Action& action : std::exchange(actions_, {})) {
      if (const auto* send = std::get_if<SendFrame>(&action)) {
        tokens.push_back(send->token);
        EXPECT_EQ(send->header.payload_bytes, send->payload.bytes + send->body.size());
      }
    }
    return tokens;
  }

  PeerTable table_{1000, seconds(3)};
  std::vector<Action> actions_;
};

TEST_F(PeerTableTest, ConnectsOncePerIncarnation) {
  const PeerId peer = NewPeer("b", 1);
  EXPECT_EQ(NewPeer("b", 1), peer);
  EXPECT_NE(NewPeer("b", 2), peer);
  EXPECT_NE(NewPeer("c", 1), peer);
  EXPECT_EQ(actions_.size(), 3);
  EXPECT_EQ(std::get<ConnectPeer>(actions_[0]).address, "address of b");
}

// The other side still has its end of it.
TEST_F(PeerTableTest, ALostPeerStaysLostUntilBothSidesConnectAnew) {
  const PeerId peer = NewPeer("b", 1, 5);
  table_.Lose(peer, actions_);
  EXPECT_TRUE(table_.Lost(peer));
  EXPECT_EQ(NewPeer("b", 1, 5), peer);
  const PeerId again = NewPeer("b", 1, 6);
  EXPECT_NE(again, peer);
  EXPECT_FALSE(table_.Lost(again));
}

TEST_F(PeerTableTest, WhatHasASuccessorIsClosedOnceNobodyUsesIt) {
  const PeerId old = NewPeer("b", 1, 5);
  const PeerId other = NewPeer("c", 1, 5);
  table_.Use(old, true);
  const PeerId now = NewPeer("b", 1, 6);
  const auto closed = [&](Duration after) {
    actions_.clear();
    table_.CloseOld(kStart + after, actions_);
    std::vector<PeerId> peers;
    for (const Action& action : actions_) {
      peers.push_back(std::get<DisconnectPeer>(action).peer);
    }
    return peers;
  };
  EXPECT_THAT(closed(seconds(10)), IsEmpty()) << "a job uses it";
  table_.Use(old, false);
  table_.Heard(old, kStart + seconds(10));
  EXPECT_THAT(closed(seconds(13)), IsEmpty()) << "the other side may not be done with it";
  EXPECT_THAT(closed(seconds(14)), ElementsAre(old));
  EXPECT_THAT(closed(seconds(30)), IsEmpty());
  EXPECT_TRUE(table_.Lost(old));
  EXPECT_FALSE(table_.Lost(other));
  EXPECT_FALSE(table_.Lost(now));
}

TEST_F(PeerTableTest, WindowBoundsWhatIsInFlight) {
  const PeerId peer = NewPeer();
  Queue(peer, 1, 600);
  Queue(peer, 2, 600);
  Queue(peer, 3, 600);
  EXPECT_THAT(Sent(), ElementsAre(1, 2));
  table_.OnSendDone(1, actions_);
  EXPECT_THAT(Sent(), ElementsAre(3));
}

TEST_F(PeerTableTest, WindowsOfPeersAreTheirOwn) {
  const PeerId b = NewPeer("b");
  const PeerId c = NewPeer("c");
  Queue(b, 1, 5000);
  Queue(b, 2, 1);
  Queue(c, 3, 1);
  EXPECT_THAT(Sent(), ElementsAre(1, 3));
}

TEST_F(PeerTableTest, HigherPriorityGoesFirstThenTheOlderOp) {
  const PeerId peer = NewPeer();
  Queue(peer, 1, 1000);  // fills the window
  Queue(peer, 2, 1, 0, 8);
  Queue(peer, 3, 1, 0, 7);
  Queue(peer, 4, 1, -1, 1);
  Queue(peer, 5, 1, 2, 9);
  Queue(peer, 6, 1, 0, 7);
  EXPECT_THAT(Sent(), ElementsAre(1));
  table_.OnSendDone(1, actions_);
  EXPECT_THAT(Sent(), ElementsAre(5, 3, 6, 2, 4));
}

TEST_F(PeerTableTest, WithdrawTakesBackOnlyWhatIsQueuedInTheRange) {
  const PeerId peer = NewPeer();
  Queue(peer, 10, 1000);
  Queue(peer, 11, 1);
  Queue(peer, 12, 1);
  Queue(peer, 20, 1);
  EXPECT_THAT(table_.Withdraw(10, 20), UnorderedElementsAre(11, 12));
  Sent();
  table_.OnSendDone(10, actions_);
  EXPECT_THAT(Sent(), ElementsAre(20));
}

TEST_F(PeerTableTest, ToALostPeerEverythingGoesOutToFail) {
  const PeerId peer = NewPeer();
  Queue(peer, 1, 1000);
  Queue(peer, 2, 1000);
  Sent();
  table_.Lose(peer, actions_);
  EXPECT_TRUE(std::holds_alternative<DisconnectPeer>(actions_.front()));
  EXPECT_THAT(Sent(), ElementsAre(2));
  Queue(peer, 3, 1000);
  EXPECT_THAT(Sent(), ElementsAre(3));
  table_.SendControl(peer, {}, {}, actions_);
  EXPECT_THAT(actions_, IsEmpty());
  table_.Lose(peer, actions_);
  EXPECT_THAT(actions_, IsEmpty());
}

TEST_F(PeerTableTest, ALeaseRunsOutAfterSilenceOnly) {
  const PeerId peer = NewPeer();
  EXPECT_FALSE(table_.Expired(peer, kStart, kStart + seconds(3)));
  EXPECT_TRUE(table_.Expired(peer, kStart, kStart + seconds(3) + Duration(1)));
  table_.Heard(peer, kStart + seconds(2));
  EXPECT_FALSE(table_.Expired(peer, table_.LastHeard(peer), kStart + seconds(5)));
  EXPECT_TRUE(table_.Expired(peer, table_.LastHeard(peer), kStart + seconds(6)));
}

TEST_F(PeerTableTest, ALaterListenerNeitherInheritsTheSilenceNorRenewsTheLease) {
  const PeerId peer = NewPeer();
  const TimePoint later = kStart + milliseconds(2900);
  EXPECT_FALSE(table_.Expired(peer, later, kStart + seconds(4)));
  EXPECT_TRUE(table_.Expired(peer, kStart, kStart + seconds(4)));
}

TEST_F(PeerTableTest, ALostPeerDoesNotExpire) {
  const PeerId peer = NewPeer();
  table_.Lose(peer, actions_);
  EXPECT_FALSE(table_.Expired(peer, kStart, kStart + seconds(60)));
}

TEST_F(PeerTableTest, ExcuseForgivesTheSilenceSoFar) {
  const PeerId peer = NewPeer();
  table_.Excuse(kStart + seconds(10));
  EXPECT_FALSE(table_.Expired(peer, kStart, kStart + seconds(13)));
}

}  // namespace
}  // namespace maypole::agent
