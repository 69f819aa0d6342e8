// The agent's Unix socket in the file system: taken over from a dead agent, refused to a second
// living one, removed at the end.
//
// Threads: confined to the loop's.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace maypole::agent {

class Listener {
 public:
  // Makes the parent directory (mode 0755) if it is missing. The socket has mode 0666: who may join
  // is decided per job, and a directory of narrower mode keeps others out. Errors: kAlreadyExists
  // if a living agent answers at the path; kInvalidArgument for a path that is too long;
  // kFailedPrecondition if something else is there, another program's socket among others;
  // kUnavailable with the kernel's reason, also if it does not tell who answers there.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(const std::string& path);
  // Removes the socket file if it is still the one that was made here.
  ~Listener();

  int fd() const { return fd_.get(); }

  // The next connection (non-blocking, close-on-exec). Invalid if none waits. When the process has
  // no descriptor left, the connection is taken and closed, so that the loop does not spin on it.
  UniqueFd Accept();

 private:
  explicit Listener(std::string path) : path_(std::move(path)) {}

  absl::Status Open();
  absl::Status ClearPath();

  std::string path_;
  UniqueFd fd_;
  UniqueFd reserve_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace maypole::agent
