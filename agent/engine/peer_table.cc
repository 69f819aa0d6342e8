#include "agent/engine/peer_table.h"

#include <algorithm>
#include <utility>

namespace maypole::agent {

PeerId PeerTable::Ensure(const EpochMember& member,
                         std::uint64_t generation,
                         TimePoint now,
                         std::vector<Action>& out) {
  const auto [entry, is_new] =
      by_key_.try_emplace(Key(member.node, member.incarnation, generation), next_id_);
  if (is_new) {
    peers_[next_id_++].heard = now;
    out.emplace_back(ConnectPeer{entry->second, member.data_address});
    const auto is_of_node = [&](auto other) {
      return other != by_key_.end() && std::get<0>(other->first) == member.node;
    };
    has_old_ = has_old_ || is_of_node(std::next(entry)) ||
               (entry != by_key_.begin() && is_of_node(std::prev(entry)));
  }
  return entry->second;
}

void PeerTable::CloseOld(TimePoint now, std::vector<Action>& out) {
  if (!std::exchange(has_old_, false)) {
    return;
  }
  for (auto entry = by_key_.begin(); entry != by_key_.end();) {
    const auto next = std::next(entry);
    const bool has_successor =
        next != by_key_.end() && std::get<0>(next->first) == std::get<0>(entry->first);
    const Peer& peer = peers_.at(entry->second);
    if (has_successor && peer.users == 0 && now - peer.heard > lease_) {
      Lose(entry->second, out);
    }
    if (has_successor && peer.users == 0 && peer.lost && peer.in_flight_bytes == 0) {
      peers_.erase(entry->second);
      by_key_.erase(entry);
    } else {
      has_old_ = has_old_ || has_successor;
    }
    entry = next;
  }
}

void PeerTable::SendControl(PeerId peer,
                            FrameHeader header,
                            std::vector<std::byte> body,
                            std::vector<Action>& out) {
  if (Lost(peer)) {
    return;
  }
  header.payload_bytes = body.size();
  out.emplace_back(SendFrame{
      .peer = peer, .header = header, .payload = {}, .body = std::move(body), .token = 0});
}

void PeerTable::QueueData(PeerId id, DataSend send, std::vector<Action>& out) {
  Peer& peer = peers_.at(id);
  const auto key = std::pair(-std::int64_t{send.priority}, send.op_order);
  peer.queue.emplace(key, std::move(send));
  Pump(id, peer, out);
}

void PeerTable::OnSendDone(TransferToken token, std::vector<Action>& out) {
  const auto found = in_flight_.find(token);
  if (found == in_flight_.end()) {
    return;
  }
  const InFlight done = found->second;
  in_flight_.erase(found);
  if (const auto peer = peers_.find(done.peer); peer != peers_.end()) {
    peer->second.in_flight_bytes -= done.bytes;
    Pump(done.peer, peer->second, out);
  }
}

// To a lost peer everything goes out at once: the transport answers each with a failure.
void PeerTable::Pump(PeerId id, Peer& peer, std::vector<Action>& out) {
  while (!peer.queue.empty() && (peer.lost || peer.in_flight_bytes < window_bytes_)) {
    DataSend send = std::move(peer.queue.begin()->second);
    peer.queue.erase(peer.queue.begin());
    peer.in_flight_bytes += send.payload.bytes;
    in_flight_[send.token] = {id, send.payload.bytes};
    send.header.payload_bytes = send.payload.bytes;
    out.emplace_back(SendFrame{.peer = id,
                               .header = send.header,
                               .payload = send.payload,
                               .body = {},
                               .token = send.token});
  }
}

std::vector<TransferToken> PeerTable::Withdraw(TransferToken first, TransferToken last) {
  std::vector<TransferToken> withdrawn;
  for (auto& [id, peer] : peers_) {
    std::erase_if(peer.queue, [&](const auto& entry) {
      const TransferToken token = entry.second.token;
      if (token < first || token >= last) {
        return false;
      }
      withdrawn.push_back(token);
      return true;
    });
  }
  return withdrawn;
}

void PeerTable::Heard(PeerId peer, TimePoint now) {
  const auto found = peers_.find(peer);
  if (found != peers_.end()) {
    found->second.heard = now;
  }
}

bool PeerTable::Expired(PeerId peer, TimePoint heard, TimePoint now) const {
  return !Lost(peer) && now - std::max(heard, excused_) > lease_;
}

void PeerTable::Lose(PeerId id, std::vector<Action>& out) {
  const auto found = peers_.find(id);
  if (found == peers_.end() || std::exchange(found->second.lost, true)) {
    return;
  }
  out.emplace_back(DisconnectPeer{id});
  Pump(id, found->second, out);
}

}  // namespace maypole::agent
