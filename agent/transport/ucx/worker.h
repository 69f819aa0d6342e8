// Owners of UCX's context and worker. Included only by files of this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ucp/api/ucp.h>

#include "absl/status/statusor.h"
#include "agent/transport/ucx/selection.h"

namespace maypole::agent {

class UcxWorker {
 public:
  // `port`: of TCP, 0 = any. Errors as UcxTransport::Create.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> Create(const UcxSelection& selection,
                                                           std::uint16_t port);

  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;
  // Gives bytes that were sent a moment to leave.
  ~UcxWorker();

  // Its destructor will leave what UCX has open to the end of the process.
  void Abandon() { is_abandoned_ = true; }

  ucp_worker_h get() const { return worker_; }

  // UCX's address of this worker.
  const std::string& address() const { return address_; }

  int event_fd() const { return event_fd_; }

 private:
  UcxWorker() = default;

  absl::Status OpenContext(const UcxSelection& selection, std::uint16_t port);
  absl::Status OpenWorker(const UcxSelection& selection, std::uint16_t port);
  absl::Status Query();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  bool is_abandoned_ = false;
  std::string address_;
  int event_fd_ = -1;
  std::uint16_t fixed_port_ = 0;  // of TCP; 0: none
};

}  // namespace maypole::agent
