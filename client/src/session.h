// A rank's connection to its agent: the handshake, the memory, the ops, and how they end when the
// agent, the job or this process's claim to the session does.
//
// Threads: any. Locks are taken in this order: `lifetime_mutex_` (shared for use, exclusive for
// Close), that of staging or of results, the heap's, the socket's. Nothing sleeps with a lock but
// what talks to the agent, which is bounded by kReplyTimeout.
// Fork: in a child every function returns kFailedPrecondition before it takes a lock or touches the
// memory, which is not there.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "client/src/agent_socket.h"
#include "client/src/connect_settings.h"
#include "client/src/op.h"
#include "client/src/segment_heap.h"
#include "client/src/slot_channel.h"
#include "client/src/staging.h"
#include "common/mapped_region.h"
#include "proto/handshake.h"

namespace maypole::client::internal {

class Session : public std::enable_shared_from_this<Session> {
 public:
  // Returns when all ranks of the job have joined.
  static Outcome Connect(const ConnectSettings& settings, std::shared_ptr<Session>& session);
  ~Session();

  const ConnectSettings& settings() const { return settings_; }

  const SessionReady& membership() const { return membership_; }

  Outcome Allocate(std::size_t bytes, void*& memory);
  Outcome Free(void* memory);

  Outcome Submit(OpRequest request, Op& op);
  // True if Wait would return at once.
  bool IsSettled(const Op& op);
  // Sleeps until settled or `deadline`; returns IsSettled.
  bool WaitUntil(const Op& op, TimePoint deadline);
  bool WaitFor(const Op& op, double seconds);
  const Outcome& Wait(Op& op);
  // Waits for its end, if nobody did: its result is dropped then. Gives a shared result back.
  void Finish(Op& op);

  Outcome Stats(StatsReply& stats);

  // Ends the job membership; memory and handles stay.
  void Leave();
  // Leave, and the memory goes. Handles of ops stay safe to use.
  void Close();

 private:
  Session() : staging_(heap_) {}

  Outcome Join(TimePoint deadline);
  Outcome SayHello(TimePoint deadline);
  Outcome ReadHelloReply(Packet& packet);
  Outcome AwaitReady(TimePoint deadline);

  // Not ok when the session can do nothing any more: forked, left, ended by the agent, agent gone.
  Outcome Standing() const;
  bool IsForked() const;
  void LookAtAgent();

  template <typename Request, typename Reply>
  Outcome Exchange(const Request& request, MessageKind kind, Reply& reply, Packet& packet);
  Outcome AllocateSegment(std::size_t bytes, DataSegment& segment);
  void FreeSegment(std::uint32_t number);
  // Maps it, if no op has. One GiveResult is due for each success.
  Outcome TakeResult(std::uint32_t number, const MappedRegion*& region);
  void GiveResult(std::uint32_t number);

  Outcome PlaceBuffers(const OpRequest& request, SlotRequest& slot, Op& op);
  Outcome PlaceTensor(
      const OpRequest& request, const char* what, void* memory, Buffer& buffer, Place& place);
  Outcome PlaceCounts(const OpRequest& request, SlotRequest& slot, Op& op);
  Outcome Stage(std::size_t bytes, Buffer& buffer, Place& place);
  void GiveMemoryBack(Op& op);
  void End(Op& op);
  Outcome Collect(Op& op);
  Outcome FindResult(const SlotOutcome& told, Op& op);

  // Of shared results; unmapped when another is mapped and no op has a result in it.
  struct ResultSegment {
    MappedRegion memory;
    std::uint32_t users = 0;
  };

  ConnectSettings settings_;
  std::uint64_t generation_ = ProcessGeneration();
  SessionReady membership_;

  std::shared_mutex lifetime_mutex_;
  std::mutex socket_mutex_;
  AgentSocket socket_;
  GuardedFd doorbell_;
  MappedRegion control_memory_;
  std::optional<SlotChannel> channel_;
  SegmentHeap heap_{
      {[this](std::size_t bytes, DataSegment& made) { return AllocateSegment(bytes, made); },
       [this](std::uint32_t number) { FreeSegment(number); }}};
  Staging staging_;
  std::mutex results_mutex_;
  std::map<std::uint32_t, ResultSegment> results_;

  std::atomic<bool> has_left_{false};
  std::atomic<bool> is_closed_{false};
  std::atomic<bool> agent_is_gone_{false};
  std::atomic<bool> agent_is_stopped_{false};
  std::atomic<std::int64_t> looked_at_agent_ns_{0};
  std::atomic<std::uint64_t> seen_beats_{0};
  std::atomic<std::int64_t> without_beat_ns_{0};
};

}  // namespace maypole::client::internal
