// One client on the agent's side: its socket, its control segment, its data segments, and how far
// it has come.
//
// Threads: confined to the loop's. Never blocks; a client that does not read is ended.
// Life: hello -> answered -> ready -> gone. A session that was ready stays, without its socket,
// until it is released, because its memory may be in use; the others vanish at once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/engine/events.h"
#include "agent/segment/data_segments.h"
#include "agent/segment/slot_ring.h"
#include "common/mapped_region.h"
#include "common/time.h"
#include "common/unique_fd.h"
#include "proto/handshake.h"

namespace maypole::agent {

// What the sessions of one server share.
struct SessionContext {
  std::string version;
  DataSegments::Limits limits;
  std::function<void(StatsReply&)> fill_stats;
  std::function<int(JobToken job, std::uint32_t segment, std::uint64_t& bytes)> open_result;
  std::vector<ClientEvent> events;  // what sessions have to tell, in order
  // Of data segments of all sessions.
  std::uint64_t segment_bytes = 0;
  std::size_t segments = 0;
  std::size_t segments_max = 0;
  std::function<std::string()> largest_holder;  // "process 4711 has 1024"
};

class ClientSession {
 public:
  // `deadline`: when the client must have said hello.
  ClientSession(SessionId id, UniqueFd socket, TimePoint deadline, SessionContext& context)
      : id_(id), socket_(std::move(socket)), deadline_(deadline), context_(context) {}

  ~ClientSession();

  // Takes packets, at most a few; true if there were any.
  bool ReadSocket();
  // Takes slots, at most a few; true if there were any.
  bool TakeSlots();
  // The client rang. One that rings without submitting is ended.
  void OnDoorbell();
  // Ends a connection that has not said hello in time.
  void OnDeadline(TimePoint now);

  void Answer(const Outcome& outcome);
  void Ready(const SessionReady& ready);
  void Complete(const CompleteOp& done);
  void Fail(const Outcome& outcome);
  // The loop sleeps from now on (or no more). False if slots wait.
  bool SetSleeping(bool is_sleeping);
  // Tells the client that the loop runs.
  void Beat();

  SessionId id() const { return id_; }

  int socket() const { return socket_.get(); }

  int doorbell() const { return doorbell_.get(); }

  TimePoint deadline() const { return deadline_; }

  std::int64_t pid() const { return pid_; }

  std::size_t segments() const { return segments_.count(); }

  bool is_awaiting_hello() const { return phase_ == Phase::kAwaitHello; }

  // Nobody needs this object any more.
  bool is_over() const { return phase_ == Phase::kOver; }

  // Refuses a client for which there is no room.
  static void TurnAway(int socket, const std::string& version, const Outcome& outcome);

 private:
  enum class Phase : std::uint8_t {
    kAwaitHello,   // connected; a stranger
    kAwaitAnswer,  // said hello; the core decides
    kAwaitReady,   // admitted; the job forms
    kReady,
    kRefused,  // was told that the job will never form, and will leave
    kGone,     // socket closed; memory stays until the core releases it
    kOver,
  };

  void OnPacket(std::span<const std::byte> packet);
  void OnHello(std::span<const std::byte> packet);
  void On(const AllocateRequest& request);
  void On(const FreeRequest& request);
  void On(const ResultRequest& request);
  void On(const StatsRequest& request);
  void On(const Goodbye& goodbye);
  void On(const Outcome& broken);

  Outcome MakeControlSegment(UniqueFd& control);
  void Send(const void* message, std::size_t bytes, std::span<const int> fds);
  void EndFor(Outcome outcome);
  void Leave(bool died, const std::string& reason);
  void TakeSlot(const SlotRing::Entry& entry);
  void CloseDescriptors();
  void CountSegments();
  Outcome AgentIsFull() const;

  SessionId id_;
  UniqueFd socket_;
  UniqueFd doorbell_;
  TimePoint deadline_;
  SessionContext& context_;
  Phase phase_ = Phase::kAwaitHello;
  std::int64_t pid_ = 0;
  JobToken job_{0};

  MappedRegion control_memory_;
  std::optional<SlotRing> ring_;
  std::uint64_t doorbells_ = 0;
  DataSegments segments_{context_.limits};
  // Counted in context_.
  std::uint64_t segment_bytes_counted_ = 0;
  std::size_t segments_counted_ = 0;
  // Data segments of each slot's op, of its tensor and its output; 0: none.
  std::vector<std::array<std::uint32_t, 2>> slot_segments_;
};

}  // namespace maypole::agent
