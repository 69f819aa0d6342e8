// A rank in a process of its own, so that it can be killed: a forked child that runs a function of
// the test and says lines to it.
//
// The child must not use gtest's macros: it says what it sees. Declare it after the cluster, so
// that it ends before.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "common/unique_fd.h"

namespace maypole::test {

class RankProcess {
 public:
  using Say = std::function<void(const std::string& line)>;

  // `body` runs in the child. An exception that leaves it is said as "error: TEXT".
  explicit RankProcess(const std::function<void(const Say& say)>& body);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  // Kills it if it still runs.
  ~RankProcess();

  pid_t pid() const { return pid_; }

  // The next line; "" at the end of all lines or after ten seconds without one.
  std::string Listen();

  // SIGKILL, and waits for its end.
  void Kill();

 private:
  pid_t pid_ = -1;
  UniqueFd lines_;
  std::string heard_;
};

}  // namespace maypole::test
