// Frames as UCX active messages: one worker, one endpoint per peer.
//
// Payloads of at most eager_bytes_max travel with their header and are handed over where UCX put
// them; larger ones wait at the sender until Receive names their place, and are then written there
// without a copy of UCX's. The choice is made here for every frame and never left to UCX, whose own
// limit costs small frames three more trips.
//
// Both sides Connect to each other; UCX joins the two into one endpoint pair with one TCP
// connection. Death of a peer's process arrives as an endpoint error within milliseconds. A peer
// that is silent (stopped, or behind a dead link) does not: that takes a lease above this
// interface. Disconnect then ends its transfers.
//
// Trust: whoever reaches UCX's TCP port owns the process; see docs/wire_format.md.
// Memory: nothing is registered up front; on RDMA, UCX registers on first use and caches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "agent/transport/transport.h"

namespace maypole::agent {

class UcxWorker;

struct UcxTransportOptions {
  std::string transports = "auto";  // --ucx-tls: auto, or some of rc,ud,dc,tcp,self
  std::string devices;              // --interface: "eth0", "mlx5_0:1,eth0", "lo"; required
  std::uint16_t port = 7710;        // --peer-port: TCP only; 0 lets the kernel choose
  std::uint64_t eager_bytes_max = 256 << 10;   // larger payloads wait for Receive
  std::uint64_t payload_bytes_max = 64 << 20;  // larger ones are refused on arrival
  // Its end is the end of the process, which then closes what UCX has open: UCX 1.13 aborts on an
  // assertion, gone in 1.14 (openucx/ucx#8175), when a connection ends while an answer to the
  // peer's request for it is still queued. A peer that dies in that instant of the first contact
  // still has that effect; nothing here can prevent it.
  bool lasts_as_long_as_process = false;
};

class UcxTransport final : public Transport {
 public:
  // Errors: kInvalidArgument    an option; the text names it and what this machine offers
  //         kResourceExhausted  the port is in use
  //         kInternal           UCX failed otherwise; the text has what it logged
  static absl::StatusOr<std::unique_ptr<UcxTransport>> Create(const UcxTransportOptions& options);

  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;
  // Ends all connections at once; unfinished transfers get no event, but their memory is free
  // afterwards.
  ~UcxTransport() override;

  std::string Address() const override;
  absl::Status Connect(PeerId peer, const std::string& address) override;
  void Disconnect(PeerId peer) override;
  void Send(PeerId peer,
            const FrameHeader& header,
            BufferView payload,
            TransferToken token) override;
  void Receive(ArrivalId arrival, BufferView target, TransferToken token) override;
  void Drop(ArrivalId arrival) override;
  bool Poll(std::vector<TransportEvent>& events) override;
  bool Arm() override;
  int EventFd() const override;

  TransportCounters Counters() const override { return counters_; }

 private:
  struct Callbacks;  // what UCX calls
  struct Peer;
  struct Transfer;

  struct Closing {
    void* request = nullptr;
    std::unique_ptr<Peer> peer;  // UCX may still call with it
  };

  // A payload that UCX keeps for us.
  struct Arrival {
    void* data = nullptr;
    std::uint64_t bytes = 0;
    bool is_eager = false;
  };

  UcxTransport(const UcxTransportOptions& options, std::unique_ptr<UcxWorker> worker);

  Transfer* NewTransfer(TransportEvent::Kind kind, TransferToken token, std::uint64_t bytes);
  // Of what a ..._nbx call returned: a failure or success at once, or a request whose callback
  // follows.
  void Settle(Transfer* transfer, void* request);
  void Finish(Transfer* transfer, bool ok);
  void Complete(TransportEvent::Kind kind, TransferToken token, bool ok);
  bool Accept(const FrameHeader& header, void* data, bool is_eager);
  void Close(std::unique_ptr<Peer> peer);
  void CloseLostPeers(const std::string& log);
  void ReapClosing();
  void LetLastFramesLeave();

  UcxTransportOptions options_;
  std::unique_ptr<UcxWorker> worker_;
  absl::flat_hash_map<PeerId, std::unique_ptr<Peer>> peers_;
  std::vector<PeerId> lost_peers_;  // reported by UCX since the last Poll
  std::vector<Closing> closing_;    // endpoints that UCX still has to end
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<Transfer*> idle_transfers_;
  absl::flat_hash_map<ArrivalId, Arrival> arrivals_;
  ArrivalId next_arrival_ = 1;
  std::vector<TransportEvent> pending_;  // for the next Poll
  TransportCounters counters_;
};

}  // namespace maypole::agent
