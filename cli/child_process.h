// Starts and ends child processes of `maypole local` and `maypole bench`: daemons, ranks, and short
// tools.
//
// Every child leads a process group of its own, so that Ctrl-C reaches only us and a child is ended
// together with what it started. Children die with the thread that started them (PR_SET_PDEATHSIG):
// start them from the main thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "common/unique_fd.h"

namespace maypole::cli {

struct ChildOptions {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH unless it holds a slash
  std::vector<std::string> environment;  // NAME=VALUE, on top of ours
  std::vector<std::string> without;      // names of ours that it does not get
  int stdin_fd = -1;                     // -1: /dev/null
  int stdout_fd = -1;                    // -1: ours
  int stderr_fd = -1;                    // -1: ours
  int net_namespace = -1;                // enter it first; -1: stay in ours
  int keep_fd = -1;                      // stays open in the child under the same number
};

// How a child ended, as a shell tells it: the exit code, or 128 + the number of the signal.
class ExitStatus {
 public:
  explicit ExitStatus(int wait_status) : wait_status_(wait_status) {}

  int code() const;

  // "exit code 3", "signal 9 (Killed)".
  std::string ToString() const;

 private:
  int wait_status_;
};

// Owns one child. The destructor kills it if it still runs.
class ChildProcess {
 public:
  static absl::StatusOr<ChildProcess> Start(const ChildOptions& options);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ~ChildProcess();

  pid_t pid() const { return pid_; }

  // Readable once the child has ended; for poll().
  int pidfd() const { return pidfd_.get(); }

  // To the child and all of its process group.
  void Signal(int signal) const;

  // Empty while the child runs.
  std::optional<ExitStatus> Poll();

  // Waits at most `seconds`; empty if the child still runs.
  std::optional<ExitStatus> WaitFor(double seconds);

 private:
  ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  void Kill();

  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<ExitStatus> ended_;
};

// Runs a short tool to its end with `input` on its standard input; an error holds what it printed.
absl::Status RunTool(std::vector<std::string> argv, const std::string& input, int net_namespace);

// SIGTERM to all, SIGKILL to those that still run after `seconds`; returns when all have ended.
void EndAll(const std::vector<ChildProcess*>& children, double seconds);

}  // namespace maypole::cli
