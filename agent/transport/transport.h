// How frames move between agents: the interface that the loop drives and adapters implement (ucx/,
// and the tests' own). An adapter never calls back: it queues events, and Poll hands them over.
//
// Threads: confined to the loop's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/memory/buffer.h"
#include "proto/frame.h"

namespace maypole::agent {

// A connection to another agent; never reused.
using PeerId = std::uint64_t;
// The caller's name for one send or receive; comes back in its completion.
using TransferToken = std::uint64_t;
// An arrived frame whose payload has not been taken yet; never reused.
using ArrivalId = std::uint64_t;

// A payload that has arrived and was not taken yet.
struct ArrivedPayload {
  ArrivalId id = 0;
  std::uint64_t bytes = 0;
  // Its bytes, valid until Receive or Drop; empty if only Receive can fetch them.
  std::span<const std::byte> view;
};

struct TransportEvent {
  enum class Kind : std::uint8_t {
    kArrived,      // header, arrival; if payload_bytes > 0, exactly one Receive or Drop must follow
    kSendDone,     // token; `ok` false: the peer is lost
    kReceiveDone,  // token; `ok` false: the peer is lost, target holds rubbish
    // peer, text; once per peer. Its sends and receives complete with ok = false, before or after
    kPeerLost,
  };
  Kind kind = Kind::kArrived;
  bool ok = true;
  PeerId peer = 0;  // kPeerLost
  TransferToken token = 0;
  ArrivalId arrival = 0;
  FrameHeader header;  // kArrived
  // kArrived with a small payload: its bytes, valid until Receive or Drop; else empty and only
  // Receive can fetch it.
  std::span<const std::byte> inline_payload;
  std::string text;  // kPeerLost: what the transport saw
};

// Bytes counted at the transport (headers included), not computed from a formula. Probes of links
// are counted apart.
struct TransportCounters {
  std::uint64_t sent_bytes = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_frames = 0;
  std::uint64_t received_frames = 0;
  std::uint64_t probe_bytes = 0;     // of both directions
  std::uint64_t refused_frames = 0;  // not a frame of this version
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Opaque bytes by which a peer's Connect reaches this transport.
  virtual std::string Address() const = 0;

  // Never blocks. Errors: kInvalidArgument if the address cannot be parsed or reached by any
  // enabled transport.
  virtual absl::Status Connect(PeerId peer, const std::string& address) = 0;

  // Ends a connection, for a peer that left or was lost; its transfers complete with ok = false. No
  // kPeerLost follows.
  virtual void Disconnect(PeerId peer) = 0;

  // Sends header and payload. `payload` must stay valid and unchanged until kSendDone. To a lost or
  // unknown peer: kSendDone with ok = false.
  virtual void Send(PeerId peer,
                    const FrameHeader& header,
                    BufferView payload,
                    TransferToken token) = 0;

  // Fetches the payload of `arrival` into `target` (exactly header.payload_bytes long), valid until
  // kReceiveDone.
  virtual void Receive(ArrivalId arrival, BufferView target, TransferToken token) = 0;

  // Gives up the payload of `arrival`.
  virtual void Drop(ArrivalId arrival) = 0;

  // Makes progress and appends what happened to `events`. True if anything did.
  virtual bool Poll(std::vector<TransportEvent>& events) = 0;

  // Prepares to sleep. True: nothing is pending and `EventFd()` becomes readable when something is.
  // False: poll again.
  virtual bool Arm() = 0;
  virtual int EventFd() const = 0;

  virtual TransportCounters Counters() const = 0;
};

}  // namespace maypole::agent
