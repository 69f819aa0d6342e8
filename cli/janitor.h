// A small process of our own that tidies up after this one, however this one ends: kill -9
// included. It removes the working folder and kills the process groups that are still registered,
// as soon as its end of a pipe says that we are gone.
//
// Threads: start it before any other thread exists (it forks and goes on without exec).
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include <absl/status/statusor.h>

#include "common/unique_fd.h"

namespace maypole::cli {

class Janitor {
 public:
  // Makes the working folder (mode 0700, in $TMPDIR or /tmp) and starts the janitor.
  static absl::StatusOr<Janitor> Start();

  Janitor(Janitor&& other) noexcept
      : folder_(std::move(other.folder_)),
        pipe_(std::move(other.pipe_)),
        pid_(std::exchange(other.pid_, -1)) {}

  Janitor& operator=(Janitor&&) = delete;
  // Has everything tidied up and returns when it is.
  ~Janitor();

  const std::string& folder() const { return folder_; }

  // `group` is to be killed if we end without having said Forget.
  void Watch(pid_t group) const;
  void Forget(pid_t group) const;

 private:
  Janitor(std::string folder, UniqueFd pipe, pid_t pid)
      : folder_(std::move(folder)), pipe_(std::move(pipe)), pid_(pid) {}

  std::string folder_;
  UniqueFd pipe_;
  pid_t pid_;
};

}  // namespace maypole::cli
