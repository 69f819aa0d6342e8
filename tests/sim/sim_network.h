// The semantics of agent/transport/transport.h with virtual time: frames of one connection and size
// class arrive in order, classes overtake each other; a small payload arrives with its frame, a
// large one is fetched; a dead process is noticed, a cut line is not.
//
// It reads a payload as late as it may, and reports one that changed or was released before its
// send was done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/engine/events.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/sim_memory.h"

namespace maypole::sim {

class SimNetwork {
 public:
  struct Options {
    Duration delay_min = std::chrono::microseconds(1);
    Duration delay_max = std::chrono::milliseconds(5);
    Duration death_noticed_max = std::chrono::milliseconds(200);
    std::uint64_t inline_bytes_max = 256 * 1024;
  };

  // `deliver` hands an event to a node; `complain` reports a breach of the interface.
  SimNetwork(Options options,
             EventQueue& queue,
             Random& random,
             Regions& regions,
             std::function<void(int, agent::TransportEvent)> deliver,
             std::function<void(std::string)> complain);

  static std::string AddressOf(int node) { return std::to_string(node); }

  void Connect(int from, const agent::ConnectPeer& connect);
  void Disconnect(int from, agent::PeerId peer);
  void Send(int from, agent::SendFrame send);
  void Receive(int at, const agent::ReceivePayload& receive);
  void Drop(int at, agent::ArrivalId arrival);

  // The process of the node ends.
  void Kill(int node);

  // Nothing passes between the two any more, and nobody is told.
  void Cut(int a, int b) { cut_.insert(std::minmax(a, b)); }

  void HealAll();

  // Arrivals at a node that were neither received nor dropped.
  std::size_t PendingArrivals(int node) const;

  // Tests only: changes one byte of a data payload on its way.
  void CorruptOnePayload() { corrupt_next_ = true; }

 private:
  using FrameId = std::uint64_t;
  using LinkId = std::uint64_t;

  struct Link {
    int from = 0;
    int to = 0;
    agent::PeerId peer = 0;
    int order = 0;  // among those of `from` to `to`; its other end has the same
    bool alive = true;
    std::array<TimePoint, 2> last{};  // arrival, by size class
  };

  enum class State { kFlying, kArrived, kReceiving };

  struct Frame {
    LinkId link = 0;
    FrameHeader header;
    agent::BufferView payload;
    std::vector<std::byte> body;
    std::vector<std::byte> bytes;    // as they arrived, if inline
    std::optional<LentRegion> lent;  // `bytes`, while the receiver may read them
    std::uint64_t checksum = 0;
    agent::TransferToken token = 0;
    bool is_inline = false;
    bool send_done = false;
    State state = State::kFlying;
    agent::BufferView target;
    agent::TransferToken receive_token = 0;
  };

  bool IsCut(const Link& link) const { return cut_.contains(std::minmax(link.from, link.to)); }

  // Runs `what` now, or when the line is whole again.
  void WhenWhole(LinkId link, std::function<void()> what);

  Duration Delay() { return random_.Delay(options_.delay_min, options_.delay_max); }

  void Arrive(FrameId id);
  void Fetch(FrameId id);
  void TakeBytes(Frame& frame);
  void EndSend(Frame& frame, bool ok);
  void EndReceive(int at, agent::TransferToken token, bool ok);
  void Break(LinkId id, bool tell_sender, const std::string& text);
  static std::uint64_t Checksum(agent::BufferView view);

  const Options options_;
  EventQueue& queue_;
  Random& random_;
  Regions& regions_;
  std::function<void(int, agent::TransportEvent)> deliver_;
  std::function<void(std::string)> complain_;
  FrameId next_frame_ = 1;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> links_;
  std::map<std::pair<int, agent::PeerId>, LinkId> by_peer_;
  std::map<FrameId, Frame> frames_;
  std::set<std::pair<int, int>> cut_;
  std::set<int> dead_;
  std::vector<std::pair<LinkId, std::function<void()>>> held_;
  bool corrupt_next_ = false;
};

}  // namespace maypole::sim
