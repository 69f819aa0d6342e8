#include "tests/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/fnv.h"

namespace maypole::sim {

using agent::TransportEvent;

SimNetwork::SimNetwork(Options options,
                       EventQueue& queue,
                       Random& random,
                       Regions& regions,
                       std::function<void(int, TransportEvent)> deliver,
                       std::function<void(std::string)> complain)
    : options_(options),
      queue_(queue),
      random_(random),
      regions_(regions),
      deliver_(std::move(deliver)),
      complain_(std::move(complain)) {}

std::uint64_t SimNetwork::Checksum(agent::BufferView view) {
  return Fnv1a({reinterpret_cast<const char*>(view.address), view.bytes});
}

void SimNetwork::WhenWhole(LinkId link, std::function<void()> what) {
  if (IsCut(links_.at(link))) {
    held_.emplace_back(link, std::move(what));
  } else {
    what();
  }
}

void SimNetwork::Connect(int from, const agent::ConnectPeer& connect) {
  const LinkId id = next_link_++;
  const int to = std::stoi(connect.address);
  const auto order = std::ranges::count_if(links_, [&](const auto& entry) {
    return entry.second.from == from && entry.second.to == to;
  });
  links_[id] = {.from = from, .to = to, .peer = connect.peer, .order = static_cast<int>(order)};
  by_peer_[{from, connect.peer}] = id;
  if (dead_.contains(to)) {
    queue_.After(Delay(), [this, id] { Break(id, true, "connection refused"); });
  }
}

void SimNetwork::Disconnect(int from, agent::PeerId peer) {
  const auto found = by_peer_.find({from, peer});
  if (found == by_peer_.end()) {
    complain_("Disconnect of an unknown peer");
    return;
  }
  const LinkId id = found->second;
  const Link& closed = links_.at(id);
  Break(id, false, "");
  for (const auto& [other, link] : links_) {
    if (link.from != closed.to || link.to != from || link.order != closed.order || !link.alive) {
      continue;
    }
    // What this side receives from that peer ends here and now; the peer learns it if it can.
    for (auto frame = frames_.begin(); frame != frames_.end();) {
      const auto next = std::next(frame);
      if (frame->second.link == other && frame->second.state == State::kReceiving) {
        EndReceive(from, frame->second.receive_token, false);
        EndSend(frame->second, false);
        frames_.erase(frame);
      }
      frame = next;
    }
    queue_.After(Delay(), [this, reverse = other] {
      WhenWhole(reverse, [this, reverse] { Break(reverse, true, "connection reset by peer"); });
    });
  }
}

void SimNetwork::Send(int from, agent::SendFrame send) {
  const auto found = by_peer_.find({from, send.peer});
  if (found == by_peer_.end() || !links_.at(found->second).alive) {
    if (send.token != 0) {
      queue_.After(Delay(), [this, from, token = send.token] {
        deliver_(from, {.kind = TransportEvent::Kind::kSendDone, .ok = false, .token = token});
      });
    }
    return;
  }
  Link& link = links_.at(found->second);
  const FrameId id = next_frame_++;
  Frame& frame = frames_[id];
  frame.link = found->second;
  frame.header = send.header;
  frame.body = std::move(send.body);
  frame.payload = frame.body.empty()
                      ? send.payload
                      : agent::BufferView{.address = frame.body.data(), .bytes = frame.body.size()};
  frame.token = send.token;
  frame.is_inline = frame.payload.bytes <= options_.inline_bytes_max || !frame.body.empty();
  if (frame.header.payload_bytes != frame.payload.bytes) {
    complain_("a header of " + std::to_string(frame.header.payload_bytes) + " bytes with " +
              std::to_string(frame.payload.bytes) + " bytes of payload");
  }
  if (frame.body.empty() && !regions_.Contains(frame.payload)) {
    complain_("a send of memory that is not the agent's");
  }
  frame.checksum = Checksum(frame.payload);
  if (frame.is_inline && random_.Chance(0.5)) {  // buffered by the transport
    TakeBytes(frame);
  }
  TimePoint& last = link.last[frame.is_inline ? 0 : 1];
  last = std::max(last, queue_.now() + Delay());
  queue_.At(last, [this, id] { Arrive(id); });
}

// Reads the sender's memory.
void SimNetwork::TakeBytes(Frame& frame) {
  if (frame.body.empty() && !regions_.Contains(frame.payload)) {
    complain_("a payload was released before its send was done");
    return;
  }
  if (Checksum(frame.payload) != frame.checksum) {
    complain_("a payload changed before its send was done");
  }
  frame.bytes.assign(frame.payload.address, frame.payload.address + frame.payload.bytes);
  if (frame.header.kind == FrameKind::kData && std::exchange(corrupt_next_, false)) {
    frame.bytes[frame.bytes.size() / 2] ^= std::byte{0x10};
  }
  EndSend(frame, true);
}

void SimNetwork::Arrive(FrameId id) {
  const auto found = frames_.find(id);
  if (found == frames_.end()) {
    return;  // its connection broke
  }
  const Link& link = links_.at(found->second.link);
  if (IsCut(link)) {
    held_.emplace_back(found->second.link, [this, id] { Arrive(id); });
    return;
  }
  if (dead_.contains(link.from) || dead_.contains(link.to)) {
    return;  // ends when the death is noticed
  }
  Frame& frame = found->second;
  frame.state = State::kArrived;
  TransportEvent event;
  event.header = frame.header;
  const int to = link.to;
  if (frame.is_inline && !frame.send_done) {
    TakeBytes(frame);
  }
  if (frame.header.payload_bytes > 0) {
    event.arrival = id;
    if (!frame.bytes.empty()) {
      event.inline_payload = frame.bytes;
      frame.lent.emplace(
          regions_, agent::BufferView{.address = frame.bytes.data(), .bytes = frame.bytes.size()});
    }
    deliver_(to, std::move(event));
  } else {
    frames_.erase(found);
    deliver_(to, std::move(event));
  }
}

void SimNetwork::Receive(int at, const agent::ReceivePayload& receive) {
  const auto found = frames_.find(receive.arrival);
  if (found == frames_.end() || found->second.state != State::kArrived ||
      links_.at(found->second.link).to != at) {
    complain_("Receive of an arrival that is not there");
    return;
  }
  Frame& frame = found->second;
  if (receive.target.bytes != frame.header.payload_bytes) {
    complain_("Receive of " + std::to_string(frame.header.payload_bytes) + " bytes into " +
              std::to_string(receive.target.bytes));
  }
  frame.state = State::kReceiving;
  frame.lent.reset();
  frame.target = receive.target;
  frame.receive_token = receive.token;
  queue_.After(Delay(), [this, id = receive.arrival] { Fetch(id); });
}

void SimNetwork::Fetch(FrameId id) {
  const auto found = frames_.find(id);
  if (found == frames_.end()) {
    return;
  }
  Frame& frame = found->second;
  const Link& link = links_.at(frame.link);
  const int at = link.to;
  if (!frame.is_inline) {
    if (!link.alive) {
      EndReceive(at, frame.receive_token, false);
      frames_.erase(found);
      return;
    }
    if (IsCut(link)) {
      held_.emplace_back(frame.link, [this, id] { Fetch(id); });
      return;
    }
    if (dead_.contains(link.from)) {
      return;  // ends when the death is noticed
    }
    TakeBytes(frame);
  }
  if (dead_.contains(at)) {
    return;
  }
  if (!regions_.Contains(frame.target)) {
    complain_("a receive into memory that is not the agent's");
  } else if (!frame.bytes.empty()) {
    std::memcpy(frame.target.address, frame.bytes.data(), frame.bytes.size());
  }
  const agent::TransferToken token = frame.receive_token;
  frames_.erase(found);
  EndReceive(at, token, true);
}

void SimNetwork::Drop(int at, agent::ArrivalId arrival) {
  const auto found = frames_.find(arrival);
  if (found == frames_.end() || found->second.state != State::kArrived ||
      links_.at(found->second.link).to != at) {
    complain_("Drop of an arrival that is not there");
    return;
  }
  const LinkId link = found->second.link;
  found->second.lent.reset();
  Frame dropped = std::move(found->second);
  frames_.erase(found);
  if (!dropped.send_done) {
    queue_.After(Delay(), [this, link, frame = std::move(dropped)]() mutable {
      EndSend(frame, links_.at(link).alive);
    });
  }
}

void SimNetwork::EndSend(Frame& frame, bool ok) {
  if (std::exchange(frame.send_done, true) || frame.token == 0) {
    return;
  }
  const int from = links_.at(frame.link).from;
  queue_.After(Delay(), [this, from, ok, token = frame.token] {
    deliver_(from, {.kind = TransportEvent::Kind::kSendDone, .ok = ok, .token = token});
  });
}

void SimNetwork::EndReceive(int at, agent::TransferToken token, bool ok) {
  queue_.After(Duration(1), [this, at, token, ok] {
    deliver_(at, {.kind = TransportEvent::Kind::kReceiveDone, .ok = ok, .token = token});
  });
}

void SimNetwork::Break(LinkId id, bool tell_sender, const std::string& text) {
  Link& link = links_.at(id);
  if (!std::exchange(link.alive, false)) {
    return;
  }
  const bool told_first = random_.Chance(0.5);
  const auto tell = [&] {
    if (tell_sender) {
      queue_.After(Duration(1), [this, from = link.from, peer = link.peer, text] {
        deliver_(from, {.kind = TransportEvent::Kind::kPeerLost, .peer = peer, .text = text});
      });
    }
  };
  if (told_first) {
    tell();
  }
  for (auto frame = frames_.begin(); frame != frames_.end();) {
    const auto next = std::next(frame);
    if (frame->second.link == id) {
      EndSend(frame->second, false);
      if (frame->second.state == State::kReceiving && !frame->second.is_inline) {
        EndReceive(link.to, frame->second.receive_token, false);
        frames_.erase(frame);
      } else if (frame->second.state == State::kFlying) {
        frames_.erase(frame);
      }
    }
    frame = next;
  }
  if (!told_first) {
    tell();
  }
}

void SimNetwork::Kill(int node) {
  dead_.insert(node);
  for (auto& [id, link] : links_) {
    if (!link.alive || (link.from != node && link.to != node)) {
      continue;
    }
    const Duration noticed = random_.Delay(Duration(0), options_.death_noticed_max);
    queue_.After(noticed, [this, link_id = id] {
      WhenWhole(link_id, [this, link_id] { Break(link_id, true, "connection closed by peer"); });
    });
  }
}

void SimNetwork::HealAll() {
  cut_.clear();
  for (auto& [link, what] : std::exchange(held_, {})) {
    WhenWhole(link, std::move(what));
  }
}

std::size_t SimNetwork::PendingArrivals(int node) const {
  return static_cast<std::size_t>(
      std::count_if(frames_.begin(), frames_.end(), [&](const auto& entry) {
        const Link& link = links_.at(entry.second.link);
        return link.to == node && entry.second.state == State::kArrived;
      }));
}

}  // namespace maypole::sim
