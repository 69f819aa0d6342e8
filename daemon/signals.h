// SIGTERM and SIGINT as a descriptor for epoll.
//
// Threads: create it in main before any other thread starts, so that all inherit the blocked mask;
// then confined.
#pragma once

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace maypole::daemon {

class StopSignals {
 public:
  // Blocks the two signals for the process and ignores SIGPIPE and SIGXFSZ. Errors: kInternal with
  // the kernel's reason.
  static absl::StatusOr<StopSignals> Create();

  // Readable when one has arrived.
  int fd() const { return fd_.get(); }

  // Whether Take would return one. Never blocks.
  bool IsPending() const;

  // The number of an arrived signal, if there is one. Never blocks.
  std::optional<int> Take();

  // Blocks until one arrives.
  int Wait();

 private:
  explicit StopSignals(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace maypole::daemon
