#include "agent/transport/ucx/ucx_transport.h"

#include <chrono>
#include <cstring>
#include <utility>

#include <ucp/api/ucp.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/transport/ucx/address.h"
#include "agent/transport/ucx/library_log.h"
#include "agent/transport/ucx/resources.h"
#include "agent/transport/ucx/selection.h"
#include "agent/transport/ucx/worker.h"
#include "common/check.h"

namespace maypole::agent {
namespace {

constexpr unsigned kFrameMessageId = 0;
// Bounds one Poll; a round handles up to 16 socket events.
constexpr int kPollRoundsMax = 16;
// Bounds the end of a transport whose connections do not close; over TCP one round is enough.
constexpr int kShutdownRoundsMax = 100000;
constexpr std::chrono::milliseconds kLastFramesLimit{100};

bool IsProbe(const FrameHeader& header) {
  return header.kind == FrameKind::kProbe || header.kind == FrameKind::kProbeEcho;
}

ucs_memory_type_t UcxMemoryType(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kHost:
      return UCS_MEMORY_TYPE_HOST;
  }
  return UCS_MEMORY_TYPE_UNKNOWN;
}

}  // namespace

struct UcxTransport::Peer {
  UcxTransport* transport = nullptr;
  PeerId id = 0;
  ucp_ep_h endpoint = nullptr;
  ucs_status_t failure = UCS_OK;
};

struct UcxTransport::Transfer {
  UcxTransport* transport = nullptr;
  TransportEvent::Kind kind = TransportEvent::Kind::kSendDone;
  TransferToken token = 0;
  std::uint64_t bytes = 0;
  FrameHeader header;  // of a send: UCX reads it until the callback
};

// UCX calls these inside progress, and inside forced closes. They only note down; Poll acts.
struct UcxTransport::Callbacks {
  static void OnSent(void* request, ucs_status_t status, void* argument) {
    auto* transfer = static_cast<Transfer*>(argument);
    transfer->transport->Finish(transfer, status == UCS_OK);
    ucp_request_free(request);
  }

  static void OnReceived(void* request, ucs_status_t status, std::size_t, void* argument) {
    OnSent(request, status, argument);
  }

  static void OnLost(void* argument, ucp_ep_h, ucs_status_t status) {
    auto* peer = static_cast<Peer*>(argument);
    peer->failure = status;
    peer->transport->lost_peers_.push_back(peer->id);
  }

  static ucs_status_t OnFrame(void* argument,
                              const void* header_bytes,
                              std::size_t header_length,
                              void* data,
                              std::size_t length,
                              const ucp_am_recv_param_t* param) {
    auto* transport = static_cast<UcxTransport*>(argument);
    const auto header =
        DecodeFrameHeader({static_cast<const std::byte*>(header_bytes), header_length});
    if (!header || header->payload_bytes != length ||
        length > transport->options_.payload_bytes_max) {
      ++transport->counters_.refused_frames;
      return UCS_OK;
    }
    const bool is_eager = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    return transport->Accept(*header, data, is_eager) ? UCS_INPROGRESS : UCS_OK;
  }
};

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Create(
    const UcxTransportOptions& options) {
  RouteUcxLog();
  const auto selection = SelectUcx(options.transports, options.devices, ListUcxResources());
  if (!selection.ok()) {
    return selection.status();
  }
  auto worker = UcxWorker::Create(*selection, options.port);
  if (!worker.ok()) {
    return worker.status();
  }
  std::unique_ptr<UcxTransport> transport(new UcxTransport(options, *std::move(worker)));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kFrameMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = Callbacks::OnFrame;
  handler.arg = transport.get();
  const ucs_status_t status = ucp_worker_set_am_recv_handler(transport->worker_->get(), &handler);
  if (status != UCS_OK) {
    return absl::InternalError(
        absl::StrCat("UCX: registering the frame handler: ", ucs_status_string(status)));
  }
  return transport;
}

UcxTransport::UcxTransport(const UcxTransportOptions& options, std::unique_ptr<UcxWorker> worker)
    : options_(options), worker_(std::move(worker)) {}

UcxTransport::~UcxTransport() {
  UcxLogCapture log;
  if (options_.lasts_as_long_as_process) {
    LetLastFramesLeave();
    worker_->Abandon();
    return;
  }
  for (const auto& [id, arrival] : arrivals_) {
    ucp_am_data_release(worker_->get(), arrival.data);
  }
  for (auto& [id, peer] : peers_) {
    Close(std::move(peer));
  }
  for (int round = 0; round < kShutdownRoundsMax; ++round) {
    ucp_worker_progress(worker_->get());
    ReapClosing();
    if (closing_.empty() && idle_transfers_.size() == transfers_.size()) {
      break;
    }
  }
  worker_.reset();
}

void UcxTransport::LetLastFramesLeave() {
  const auto limit = std::chrono::steady_clock::now() + kLastFramesLimit;
  while (idle_transfers_.size() < transfers_.size() && std::chrono::steady_clock::now() < limit) {
    ucp_worker_progress(worker_->get());
  }
}

std::string UcxTransport::Address() const {
  return WrapUcxAddress(worker_->address());
}

absl::Status UcxTransport::Connect(PeerId id, const std::string& address) {
  MAYPOLE_CHECK(!peers_.contains(id));
  const auto worker_address = UnwrapUcxAddress(address);
  if (!worker_address.ok()) {
    return worker_address.status();
  }
  auto peer = std::make_unique<Peer>();
  peer->transport = this;
  peer->id = id;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(worker_address->data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = Callbacks::OnLost;
  params.err_handler.arg = peer.get();
  UcxLogCapture log;
  const ucs_status_t status = ucp_ep_create(worker_->get(), &params, &peer->endpoint);
  if (status != UCS_OK) {
    return absl::InvalidArgumentError(absl::StrCat("the agent cannot be reached by ",
                                                   options_.transports,
                                                   " on ",
                                                   options_.devices,
                                                   ": ",
                                                   ucs_status_string(status),
                                                   log.Suffix()));
  }
  peers_.emplace(id, std::move(peer));
  return absl::OkStatus();
}

void UcxTransport::Disconnect(PeerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) {
    return;
  }
  std::unique_ptr<Peer> peer = std::move(found->second);
  peers_.erase(found);
  UcxLogCapture log;
  Close(std::move(peer));
}

void UcxTransport::Send(PeerId id,
                        const FrameHeader& header,
                        BufferView payload,
                        TransferToken token) {
  MAYPOLE_CHECK(header.payload_bytes == payload.bytes);
  const auto found = peers_.find(id);
  if (found == peers_.end() || found->second->failure != UCS_OK) {
    Complete(TransportEvent::Kind::kSendDone, token, false);
    return;
  }
  Transfer* transfer =
      NewTransfer(TransportEvent::Kind::kSendDone, token, sizeof(header) + payload.bytes);
  transfer->header = header;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = Callbacks::OnSent;
  param.user_data = transfer;
  param.flags =
      payload.bytes > options_.eager_bytes_max ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UcxMemoryType(payload.kind);
  Settle(transfer,
         ucp_am_send_nbx(found->second->endpoint,
                         kFrameMessageId,
                         &transfer->header,
                         sizeof(FrameHeader),
                         payload.address,
                         payload.bytes,
                         &param));
}

void UcxTransport::Receive(ArrivalId id, BufferView target, TransferToken token) {
  const auto found = arrivals_.find(id);
  MAYPOLE_CHECK(found != arrivals_.end());
  const Arrival arrival = found->second;
  arrivals_.erase(found);
  MAYPOLE_CHECK(target.bytes == arrival.bytes);
  if (arrival.is_eager && target.kind == MemoryKind::kHost) {
    std::memcpy(target.address, arrival.data, arrival.bytes);
    ucp_am_data_release(worker_->get(), arrival.data);
    Complete(TransportEvent::Kind::kReceiveDone, token, true);
    return;
  }
  Transfer* transfer = NewTransfer(TransportEvent::Kind::kReceiveDone, token, arrival.bytes);
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.recv_am = Callbacks::OnReceived;
  param.user_data = transfer;
  param.memory_type = UcxMemoryType(target.kind);
  Settle(transfer,
         ucp_am_recv_data_nbx(worker_->get(), arrival.data, target.address, target.bytes, &param));
}

void UcxTransport::Drop(ArrivalId id) {
  const auto found = arrivals_.find(id);
  MAYPOLE_CHECK(found != arrivals_.end());
  ucp_am_data_release(worker_->get(), found->second.data);
  arrivals_.erase(found);
}

bool UcxTransport::Poll(std::vector<TransportEvent>& events) {
  UcxLogCapture log;
  bool progressed = false;
  for (int round = 0; round < kPollRoundsMax && pending_.empty(); ++round) {
    if (ucp_worker_progress(worker_->get()) == 0) {
      break;
    }
    progressed = true;
  }
  if (!lost_peers_.empty()) {
    CloseLostPeers(log.text());
    ucp_worker_progress(worker_->get());  // completes their transfers
  }
  ReapClosing();
  const bool happened = progressed || !pending_.empty();
  events.insert(events.end(),
                std::make_move_iterator(pending_.begin()),
                std::make_move_iterator(pending_.end()));
  pending_.clear();
  return happened;
}

bool UcxTransport::Arm() {
  if (!pending_.empty() || !lost_peers_.empty() || !closing_.empty()) {
    return false;
  }
  return ucp_worker_arm(worker_->get()) == UCS_OK;
}

int UcxTransport::EventFd() const {
  return worker_->event_fd();
}

UcxTransport::Transfer* UcxTransport::NewTransfer(TransportEvent::Kind kind,
                                                  TransferToken token,
                                                  std::uint64_t bytes) {
  if (idle_transfers_.empty()) {
    transfers_.push_back(std::make_unique<Transfer>());
    idle_transfers_.push_back(transfers_.back().get());
  }
  Transfer* transfer = idle_transfers_.back();
  idle_transfers_.pop_back();
  *transfer = {this, kind, token, bytes, {}};
  return transfer;
}

void UcxTransport::Settle(Transfer* transfer, void* request) {
  if (request == nullptr || UCS_PTR_IS_ERR(request)) {
    Finish(transfer, request == nullptr);
  }
}

void UcxTransport::Finish(Transfer* transfer, bool ok) {
  if (ok && IsProbe(transfer->header)) {
    counters_.probe_bytes += transfer->bytes;
  } else if (ok && transfer->kind == TransportEvent::Kind::kSendDone) {
    ++counters_.sent_frames;
    counters_.sent_bytes += transfer->bytes;
  } else if (ok) {
    counters_.received_bytes += transfer->bytes;
  }
  Complete(transfer->kind, transfer->token, ok);
  idle_transfers_.push_back(transfer);
}

void UcxTransport::Complete(TransportEvent::Kind kind, TransferToken token, bool ok) {
  TransportEvent& event = pending_.emplace_back();
  event.kind = kind;
  event.token = token;
  event.ok = ok;
}

// True if UCX shall keep `data` until Receive or Drop.
bool UcxTransport::Accept(const FrameHeader& header, void* data, bool is_eager) {
  const std::uint64_t bytes = sizeof(header) + (is_eager ? header.payload_bytes : 0);
  if (IsProbe(header)) {
    counters_.probe_bytes += bytes;
  } else {
    ++counters_.received_frames;
    counters_.received_bytes += bytes;
  }
  TransportEvent& event = pending_.emplace_back();
  event.kind = TransportEvent::Kind::kArrived;
  event.header = header;
  if (header.payload_bytes == 0) {
    return false;
  }
  event.arrival = next_arrival_++;
  if (is_eager) {
    event.inline_payload = {static_cast<const std::byte*>(data), header.payload_bytes};
  }
  arrivals_.emplace(event.arrival, Arrival{data, header.payload_bytes, is_eager});
  return true;
}

// Completes what is in flight, here or in the next progress, with an error. A graceful close would
// wait for the peer.
void UcxTransport::Close(std::unique_ptr<Peer> peer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(peer->endpoint, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) {
    closing_.push_back({request, std::move(peer)});
  }
}

void UcxTransport::CloseLostPeers(const std::string& log) {
  for (const PeerId id : std::exchange(lost_peers_, {})) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) {
      continue;  // disconnected meanwhile
    }
    std::unique_ptr<Peer> peer = std::move(found->second);
    peers_.erase(found);
    TransportEvent& event = pending_.emplace_back();
    event.kind = TransportEvent::Kind::kPeerLost;
    event.peer = id;
    event.text = absl::StrCat(ucs_status_string(peer->failure), log.empty() ? "" : ": ", log);
    Close(std::move(peer));
  }
}

void UcxTransport::ReapClosing() {
  std::erase_if(closing_, [](const Closing& closing) {
    if (ucp_request_check_status(closing.request) == UCS_INPROGRESS) {
      return false;
    }
    ucp_request_free(closing.request);
    return true;
  });
}

}  // namespace maypole::agent
