// The other agents: how to reach them, when they were last heard, and the order in which data goes
// out to each. Pure.
//
// A peer is one connection to one incarnation of one node, and serves every job that has it as a
// member. Both ends of a connection belong together: an end that was made anew cannot take all that
// the other end's predecessor sends. So a lost peer stays lost, and both sides connect anew when
// the coordinator says so, by a larger generation. Data frames to a peer are queued by priority,
// then age, and a window bounds what is handed to the transport: two slices keep a link full, more
// only costs cache misses and wake-ups (measured with UCX over TCP).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
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

  // The peer for this generation of connections to the member; connects at the first call. Perhaps
  // lost already.
  PeerId Ensure(const EpochMember& member,
                std::uint64_t generation,
                TimePoint now,
                std::vector<Action>& out);

  // A job has it as a member, or no longer.
  void Use(PeerId peer, bool used) { peers_.at(peer).users += used ? 1 : -1; }

  // Closes what no job uses, was not heard for a lease, and has a successor.
  void CloseOld(TimePoint now, std::vector<Action>& out);

  // CloseOld will have something to do.
  bool has_old() const { return has_old_; }

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
  TimePoint LastHeard(PeerId peer) const {
    const auto found = peers_.find(peer);
    return found == peers_.end() ? TimePoint{} : found->second.heard;
  }

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
    int users = 0;
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
  using Key =
      std::tuple<std::string, std::uint64_t, std::uint64_t>;  // node, incarnation, generation
  std::map<Key, PeerId> by_key_;
  bool has_old_ = false;  // with a successor
  std::unordered_map<PeerId, Peer> peers_;
  std::unordered_map<TransferToken, InFlight> in_flight_;
};

}  // namespace maypole::agent
