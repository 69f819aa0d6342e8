#include "agent/transport/ucx/worker.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "agent/transport/ucx/library_log.h"
#include "agent/transport/ucx/listener.h"
#include "proto/frame.h"

namespace maypole::agent {
namespace {

// Payloads are summed where UCX keeps them, in vectors of this many bytes at most.
constexpr std::size_t kPayloadAlignment = 64;

absl::Status UcxError(const char* what, ucs_status_t status, const UcxLogCapture& log) {
  return absl::InternalError(
      absl::StrCat("UCX: ", what, ": ", ucs_status_string(status), log.Suffix()));
}

// Names as ucp_config_modify wants them: those of a transport without its prefix. A prefixed one is
// accepted and does nothing.
std::vector<std::pair<const char*, std::string>> Settings(const UcxSelection& selection,
                                                          std::uint16_t port) {
  std::vector<std::pair<const char*, std::string>> settings = {
      {"TLS", selection.transports},
      {"NET_DEVICES", selection.devices},
      // UCX's own keepalive is data in flight, and keeps the kernel from noticing a dead link.
      {"KEEPALIVE_INTERVAL", "inf"},
  };
  if (selection.has_tcp) {
    // Idle connections over a dead link end after 2 to 3 s. With data in flight only the lease
    // above us helps.
    settings.insert(settings.end(), {{"KEEPIDLE", "1s"}, {"KEEPINTVL", "1s"}, {"KEEPCNT", "2"}});
    // Else ucp_ep_create waits for the connection: seconds, or minutes where packets vanish. (There
    // the loss is reported late; SYN_CNT would help, but set in code it breaks UCX 1.13's worker.)
    settings.emplace_back("CONN_NB", "y");
    // UCX 1.13 completes a zero-copy active message twice when its send meets a reset, and aborts:
    // 8 of 100 kills of a peer took the survivor along (uct_tcp_ep_sendv;
    // tests/support/transport_death.cc). Copied segments have no completion to repeat, and as large
    // as these they cost nothing measurable. The data of a rendezvous goes by another way and stays
    // zero-copy.
    settings.emplace_back("ZCOPY_THRESH", "inf");
    settings.emplace_back("TX_SEG_SIZE", "64k");
    settings.emplace_back("PORT_RANGE", port == 0 ? "0" : absl::StrCat(port, "-", port));
  }
  return settings;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::Create(const UcxSelection& selection,
                                                             std::uint16_t port) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker());
  if (absl::Status status = worker->OpenContext(selection, port); !status.ok()) {
    return status;
  }
  if (absl::Status status = worker->OpenWorker(selection, port); !status.ok()) {
    return status;
  }
  if (absl::Status status = worker->Query(); !status.ok()) {
    return status;
  }
  return worker;
}

UcxWorker::~UcxWorker() {
  if (fixed_port_ != 0) {
    AwaitSentBytes(fixed_port_);
  }
  if (is_abandoned_) {
    return;
  }
  if (worker_ != nullptr) {
    ucp_worker_destroy(worker_);
  }
  if (context_ != nullptr) {
    ucp_cleanup(context_);
  }
}

absl::Status UcxWorker::OpenContext(const UcxSelection& selection, std::uint16_t port) {
  UcxLogCapture log;
  ucp_config_t* config = nullptr;
  if (const ucs_status_t status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK) {
    return UcxError("reading the UCX_ environment", status, log);
  }
  ucs_status_t status = UCS_OK;
  for (const auto& [name, value] : Settings(selection, port)) {
    status = ucp_config_modify(config, name, value.c_str());
    if (status != UCS_OK) {
      ucp_config_release(config);
      return UcxError(name, status, log);
    }
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "maypole";
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  return status == UCS_OK ? absl::OkStatus() : UcxError("opening the devices", status, log);
}

absl::Status UcxWorker::OpenWorker(const UcxSelection& selection, std::uint16_t port) {
  UcxLogCapture log;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  params.am_alignment = kPayloadAlignment;
  const ucs_status_t status = ucp_worker_create(context_, &params, &worker_);
  if (status == UCS_ERR_BUSY && selection.has_tcp && port != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("--peer-port: port ",
                     port,
                     " on ",
                     selection.devices,
                     " is in use, by another agent on this node or by connections of one that just "
                     "ended; stop it, wait a "
                     "minute, or choose another port",
                     log.Suffix()));
  }
  if (status != UCS_OK) {
    return UcxError("opening the worker", status, log);
  }
  if (log.text().find("invalid configuration") != std::string::npos) {
    return absl::InternalError(absl::StrCat("UCX ignored a setting", log.Suffix()));
  }
  if (selection.has_tcp && port != 0) {
    fixed_port_ = port;
    ResetConnectionsOnClose(port);
  }
  return absl::OkStatus();
}

absl::Status UcxWorker::Query() {
  UcxLogCapture log;
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  if (const ucs_status_t status = ucp_worker_query(worker_, &attributes); status != UCS_OK) {
    return UcxError("asking for the address", status, log);
  }
  address_.assign(reinterpret_cast<const char*>(attributes.address), attributes.address_length);
  ucp_worker_release_address(worker_, attributes.address);
  if (attributes.max_am_header < sizeof(FrameHeader)) {
    return absl::InternalError(absl::StrCat("UCX: the chosen transports carry headers of ",
                                            attributes.max_am_header,
                                            " bytes at most, a frame needs ",
                                            sizeof(FrameHeader)));
  }
  if (const ucs_status_t status = ucp_worker_get_efd(worker_, &event_fd_); status != UCS_OK) {
    return UcxError("the chosen transports cannot wake a sleeper", status, log);
  }
  return absl::OkStatus();
}

}  // namespace maypole::agent
