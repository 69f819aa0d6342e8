// The deciding part of maypole-agent: sessions that join, jobs that form, ops that match and run,
// peers that fall silent. A state machine without threads, clock, sockets or logging: events in
// with the time, actions out. The simulator (tests/sim) runs this very object.
//
// Threads: confined.  Ownership: borrows Memory.
// Order: after every event the caller takes the actions and carries them out in order.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/engine/early_frames.h"
#include "agent/engine/events.h"
#include "agent/engine/job.h"
#include "agent/engine/prober.h"
#include "agent/engine/recent_tokens.h"

namespace maypole::agent {

// What waits on this agent and for whom: for the coordinator's status.
struct WaitingReport {
  std::string job;
  WaitingFor op;
};

class AgentCore {
 public:
  AgentCore(CoreOptions options, Memory& memory);
  AgentCore(const AgentCore&) = delete;
  AgentCore& operator=(const AgentCore&) = delete;

  void OnClient(ClientEvent event, TimePoint now);
  void OnControl(ControlEvent event, TimePoint now);
  void OnTransport(const TransportEvent& event, TimePoint now);
  void OnWorkDone(WorkToken token, TimePoint now);
  // At NextTick() or later.
  void OnTick(TimePoint now);

  TimePoint NextTick() const { return next_tick_; }

  std::vector<Action> TakeActions();

  // An op is collecting or running, or a link is being measured: the loop may spin for a moment.
  bool Busy() const { return OpsLive() || prober_.unsettled(); }

  std::size_t OpsInFlight() const;
  std::vector<WaitingReport> Waiting(TimePoint now) const;
  // What a restarted coordinator has to be told: the runs that have not failed.
  std::vector<EpochInfo> Epochs() const;

  // Changes whenever Epochs() does.
  std::uint64_t epochs_version() const { return epochs_version_; }

 private:
  struct Session {
    std::string job;
    Rank rank{0};
    std::uint32_t world_size = 0;
    std::int64_t pid = 0;
    std::optional<JobToken> token;  // set when the job has formed
    bool gone = false;
    TimePoint since{};
    Duration timeout{0};  // for the job to form; <= 0: none
  };

  void OnHello(const ClientHello& hello, TimePoint now);
  void OnGone(const ClientGone& gone, TimePoint now);
  void OnEpoch(EpochInfo epoch, TimePoint now);
  void SayEnded(const EpochInfo& epoch,
                const std::vector<Rank>& ranks,
                const std::map<Rank, SessionId>& waiting,
                TimePoint now);
  void SayJoin(const Session& session, TimePoint now);
  void OnJoinRefused(const JoinRefused& refusal);
  void OnCoordinatorLink(const CoordinatorLink& link, TimePoint now);
  // Those that have waited since before `since`.
  void RefuseWaiting(const std::string& text, TimePoint since);
  void OnFrame(const TransportEvent& event, TimePoint now);
  void OnTokenDone(std::uint64_t token, bool ok, TimePoint now);
  void LosePeer(PeerId peer, const std::string& text, TimePoint now);
  bool OpsLive() const;
  void Tidy(TimePoint now);
  void Schedule(TimePoint now);
  std::vector<JobToken> Tokens() const;

  CoreOptions options_;
  Memory& memory_;
  PeerTable peers_;
  PlanCache plans_;
  std::vector<Action> actions_;
  Prober prober_;
  ExecutionTable executions_;
  std::uint64_t next_order_ = 1;
  std::map<SessionId, Session> sessions_;
  std::map<JobToken, std::unique_ptr<Job>> jobs_;
  RecentTokens ended_;          // or never begun here; their late frames are dropped, not kept
  std::deque<LeaveRank> left_;  // of formed jobs, newest last
  EarlyFrames early_;
  std::uint64_t epochs_version_ = 0;
  bool link_up_ = false;
  std::string link_text_ = "not attached yet";
  TimePoint link_down_since_{};
  TimePoint last_tick_{};
  TimePoint next_tick_ = kNever;
  TimePoint next_heartbeat_{};
};

}  // namespace maypole::agent
