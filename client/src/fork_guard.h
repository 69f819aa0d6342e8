// Tells a forked child from the process that opened a session, and takes the session's descriptors
// away from the child: a data loader that kept a copy of the socket alive would hide the death of
// its parent from the agent.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace maypole::client::internal {

// A number of this process that a forked child does not share (also after a bare clone(), which
// runs no handlers). Async-signal-safe once it was called in the process.
std::uint64_t ProcessGeneration();

// A descriptor that is closed in every forked child.
// Ownership: the descriptor. Neither copied nor moved: the fork handler knows its address.
class GuardedFd {
 public:
  GuardedFd();
  ~GuardedFd();
  GuardedFd(const GuardedFd&) = delete;
  GuardedFd& operator=(const GuardedFd&) = delete;

  // Takes over what `open(argument)` returns; no fork happens in between.
  void Open(int (*open)(int), int argument);
  void Close();

  int get() const { return fd_.load(std::memory_order_relaxed); }

 private:
  friend struct ForkHandlers;

  std::atomic<int> fd_{-1};
  GuardedFd* previous_ = nullptr;
  GuardedFd* next_ = nullptr;
};

}  // namespace maypole::client::internal
