// Asking a coordinator what it knows.
#pragma once

#include <string>

#include <absl/status/statusor.h>

#include "proto/coordinator.pb.h"

namespace maypole::cli {

struct CoordinatorCall {
  std::string option = "--coordinator";  // that named the address, for errors
  std::string address;                   // HOST:PORT
  double timeout_seconds = 3;
  bool probe_links = false;  // have the links measured anew before, without waiting for it
};

// Blocks for at most the timeout.
absl::StatusOr<v1::Status> FetchStatus(const CoordinatorCall& call);

}  // namespace maypole::cli
