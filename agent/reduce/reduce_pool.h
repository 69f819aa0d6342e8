// The threads that sum. The loop's thread is one of them: it runs single pieces between polls of
// the transport (RunOne), so that a rendezvous never waits for a whole tensor; helpers are woken
// only when a backlog has formed.
//
// Threads: Submit, RunOne, TakeDone and Pending on the loop's thread only; helpers are internal.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agent/reduce/work.h"

namespace maypole::agent {

class ReducePool {
 public:
  // `threads` (>= 1) counts the loop's thread, so threads - 1 helpers are started.
  explicit ReducePool(int threads);
  ReducePool(const ReducePool&) = delete;
  ReducePool& operator=(const ReducePool&) = delete;
  // Finishes what helpers have begun; what is still queued is dropped.
  ~ReducePool();

  // Queues a piece; may wake a helper, if more is queued than the loop will soon do itself.
  void Submit(std::uint64_t token, ReduceWork work);

  // Runs one queued piece on this thread. False if none was queued.
  bool RunOne();

  // Appends the tokens of finished pieces (by whichever thread).
  void TakeDone(std::vector<std::uint64_t>& done);

  // Submitted and not yet taken as done.
  std::size_t Pending() const;

  // Becomes readable when a helper finished a piece after Arm() returned true.
  int EventFd() const;
  // The loop says whether it is about to sleep. Returns false (and does not arm) if something is
  // done or queued already.
  bool Arm();

  // Time spent in Reduce so far, all threads together.
  std::uint64_t BusyNanoseconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace maypole::agent
