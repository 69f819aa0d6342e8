// The other agents: how to reach them, when they were last heard, and the order in which data goes
// out to each. Pure.
//
// A peer is one incarnation of one node and serves every job that has it as a member. Data frames
// to a peer are queued by priority, then age, and a window bounds what is handed to the transport:
// two slices keep a link full, more only costs cache misses and wake-ups (measured with UCX over
// TCP).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/engine/events.h"
#include "common/time.h"

namespace maypole::agent {

struct DataSend {
  std::int32_t priority = 0;
  std::uint64_t op_order = 0;  // of the op; older ops first among equal priorities
  FrameHeader header;
  BufferView payload;
  TransferToken token = 0;
};

class PeerTable {
 public:
  PeerTable(std::uint64_t window_bytes, Duration lease)
      : window_bytes_(window_bytes), lease_(lease) {}

  // The peer of this incarnation of the node; connects at the first call.
  PeerId Ensure(const EpochMember& member, TimePoint now, std::vector<Action>& out);

  void SendControl(PeerId peer,
                   FrameHeader header,
                   std::vector<std::byte> body,
                   std::vector<Action>& out);
  void QueueData(PeerId peer, DataSend send, std::vector<Action>& out);
  void OnSendDone(TransferToken token, std::vector<Action>& out);
  // Takes back what is queued and not begun among the tokens in [first, last); returns them.
  std::vector<TransferToken> Withdraw(TransferToken first, TransferToken last);

  void Heard(PeerId peer, TimePoint now);

  // By anybody here.
  TimePoint LastHeard(PeerId peer) const { return peers_.at(peer).heard; }

  // The lease has run out for one who heard the peer last, or began to listen, then: who listens
  // for something else neither shortens nor lengthens it. Not true of a lost peer.
  bool Expired(PeerId peer, TimePoint heard, TimePoint now) const;

  // This process itself did not run for a while: nobody is to blame for silence.
  void Excuse(TimePoint now) { excused_ = now; }

  // The connection broke or the lease ran out: closes it. What was in flight comes back from the
  // transport as failed.
  void Lose(PeerId peer, std::vector<Action>& out);

  bool Lost(PeerId peer) const { return !peers_.contains(peer) || peers_.at(peer).lost; }

  Duration lease() const { return lease_; }

 private:
  struct Peer {
    std::uint64_t in_flight_bytes = 0;
    std::multimap<std::pair<std::int64_t, std::uint64_t>, DataSend> queue;  // key: (-priority, age)
    TimePoint heard{};
    bool lost = false;
  };

  struct InFlight {
    PeerId peer = 0;
    std::uint64_t bytes = 0;
  };

  void Pump(PeerId id, Peer& peer, std::vector<Action>& out);

  std::uint64_t window_bytes_;
  Duration lease_;
  TimePoint excused_{};
  PeerId next_id_ = 1;
  std::map<std::pair<std::string, std::uint64_t>, PeerId> by_incarnation_;
  std::unordered_map<PeerId, Peer> peers_;
  std::unordered_map<TransferToken, InFlight> in_flight_;
};

}  // namespace maypole::agent
