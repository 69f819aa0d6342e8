#include "agent/engine/agent_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/overloaded.h"

namespace maypole::agent {
namespace {

constexpr Duration kTickBusy = std::chrono::milliseconds(100);
constexpr Duration kTickOld = std::chrono::seconds(1);  // while connections wait to be closed
constexpr std::size_t kLeftMax = 1024;

}  // namespace

AgentCore::AgentCore(CoreOptions options, Memory& memory)
    : options_(std::move(options)),
      memory_(memory),
      peers_(options_.window_bytes, options_.lease),
      plans_(options_.plan_steps_max),
      prober_(peers_, memory_, actions_),
      early_(actions_) {}

std::vector<Action> AgentCore::TakeActions() {
  return std::exchange(actions_, {});
}

std::size_t AgentCore::OpsInFlight() const {
  std::size_t count = 0;
  for (const auto& [token, job] : jobs_) {
    count += job->LiveOps();
  }
  return count;
}

bool AgentCore::OpsLive() const {
  return std::any_of(
      jobs_.begin(), jobs_.end(), [](const auto& job) { return job.second->HasLiveOps(); });
}

// ---- clients

void AgentCore::OnClient(ClientEvent event, TimePoint now) {
  std::visit(
      Overloaded{
          [&](ClientHello& hello) { OnHello(hello, now); },
          [&](Submission& submission) {
            const auto session = sessions_.find(submission.session);
            if (session == sessions_.end() || !session->second.token ||
                !jobs_.contains(*session->second.token)) {
              actions_.emplace_back(
                  CompleteOp{submission.session,
                             submission.slot,
                             {ErrorCode::kFailedPrecondition,
                              "the job has not formed yet: wait for maypole_connect",
                              {}},
                             {}});
              return;
            }
            jobs_.at(*session->second.token)->Submit(std::move(submission), now);
          },
          [&](ResultReleased& released) {
            const auto session = sessions_.find(released.session);
            if (session != sessions_.end() && session->second.token &&
                jobs_.contains(*session->second.token)) {
              jobs_.at(*session->second.token)->OnResultReleased(released.session, released.slot);
            }
          },
          [&](ClientGone& gone) { OnGone(gone, now); },
      },
      event);
  Tidy(now);
}

void AgentCore::OnHello(const ClientHello& hello, TimePoint now) {
  const auto holder = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second.job == hello.job && entry.second.rank == hello.rank && !entry.second.gone;
  });
  if (holder != sessions_.end()) {
    actions_.emplace_back(
        AnswerHello{hello.session,
                    {ErrorCode::kInvalidArgument,
                     "rank " + std::to_string(hello.rank.value()) + " of job \"" + hello.job +
                         "\" is already held by process " + std::to_string(holder->second.pid) +
                         " on this node (" + options_.node +
                         "); give every process its own RANK, or another job name",
                     "ranks=" + std::to_string(hello.rank.value()) + ";hosts=" + options_.host}});
    return;
  }
  Session session{.job = hello.job,
                  .rank = hello.rank,
                  .world_size = hello.world_size,
                  .pid = hello.pid,
                  .token = {},
                  .since = now,
                  .timeout = hello.timeout};
  sessions_.emplace(hello.session, std::move(session));
  actions_.emplace_back(AnswerHello{hello.session, {}});
  actions_.emplace_back(
      TellCoordinator{JoinRank{hello.job, hello.rank, hello.world_size, hello.timeout}});
}

void AgentCore::OnGone(const ClientGone& gone, TimePoint now) {
  const auto found = sessions_.find(gone.session);
  if (found == sessions_.end()) {
    actions_.emplace_back(ReleaseSession{gone.session});  // refused, or never greeted
    return;
  }
  Session& session = found->second;
  if (std::exchange(session.gone, true)) {
    return;
  }
  LeaveRank leave{
      session.job, session.token.value_or(JobToken(0)), session.rank, gone.died, gone.reason};
  actions_.emplace_back(TellCoordinator{leave});
  if (session.token) {
    left_.push_back(std::move(leave));
    if (left_.size() > kLeftMax) {
      left_.pop_front();
    }
    jobs_.at(*session.token)->OnSessionGone(gone.session, gone.died, gone.reason, now);
  }
}

// ---- coordinator

void AgentCore::OnControl(ControlEvent event, TimePoint now) {
  std::visit(Overloaded{
                 [&](EpochInfo& epoch) { OnEpoch(std::move(epoch), now); },
                 [&](TuningChanged& changed) {
                   const auto job = jobs_.find(changed.token);
                   if (job != jobs_.end() && job->second->Tune(std::move(changed.tuning))) {
                     ++epochs_version_;
                   }
                 },
                 [&](ProbeLink& request) { prober_.OnRequest(request, now); },
                 [&](JoinRefused& refusal) { OnJoinRefused(refusal); },
                 [&](JobFailed& failed) {
                   const auto job = jobs_.find(failed.token);
                   if (job != jobs_.end()) {
                     job->second->OnFailedElsewhere(
                         {ErrorCode::kPeerLost, failed.text, failed.culprits}, now);
                   }
                 },
                 [&](AgentRefused& refusal) {
                   RefuseWaiting("the coordinator refused the agent of this node: " + refusal.text,
                                 kNever);
                 },
                 [&](CoordinatorLink& link) { OnCoordinatorLink(link, now); },
             },
             event);
  Tidy(now);
}

void AgentCore::OnEpoch(EpochInfo epoch, TimePoint now) {
  if (jobs_.contains(epoch.token)) {
    return;  // told again after the coordinator came back
  }
  const auto self =
      std::find_if(epoch.members.begin(), epoch.members.end(), [&](const EpochMember& member) {
        return member.node == options_.node && member.incarnation == options_.incarnation;
      });
  if (self == epoch.members.end()) {
    return;  // of a former life of this node
  }
  std::map<Rank, SessionId> local;
  for (const auto& [id, session] : sessions_) {
    if (session.job == epoch.job && !session.token && !session.gone) {
      local[session.rank] = id;
    }
  }
  std::erase_if(local, [&](const auto& entry) {
    return std::find(self->ranks.begin(), self->ranks.end(), entry.first) == self->ranks.end();
  });
  if (ended_.Contains(epoch.token)) {
    SayEnded(epoch, self->ranks, local, now);
    return;
  }
  const bool is_complete = local.size() == self->ranks.size();
  const std::string reason = "a rank of node " + options_.node + " left while the job formed";
  const std::string culprits = "hosts=" + options_.host;
  const std::vector<EarlyFrame> early = early_.Take(epoch.token);
  if (local.empty()) {
    actions_.emplace_back(
        TellCoordinator{FailureReport{epoch.job, epoch.token, epoch.epoch, reason, culprits}});
    ended_.Add(epoch.token);
    for (const EarlyFrame& frame : early) {
      actions_.emplace_back(DropPayload{frame.arrival});
    }
    return;
  }
  for (const auto& [rank, id] : local) {
    sessions_.at(id).token = epoch.token;
  }
  const JobToken token = epoch.token;
  const auto member = Member(static_cast<std::uint32_t>(self - epoch.members.begin()));
  const CoreContext context{
      options_, memory_, peers_, plans_, actions_, executions_, next_order_, epochs_version_};
  jobs_.emplace(token,
                std::make_unique<Job>(std::move(epoch), member, std::move(local), context, now));
  ++epochs_version_;
  Job& job = *jobs_.at(token);
  for (const EarlyFrame& frame : early) {
    job.OnFrame(frame.header, frame.arrival, frame.body, now);
  }
  if (!is_complete) {
    job.OnFailedElsewhere({ErrorCode::kPeerLost, reason, culprits}, now);
  } else if (early_.HasForgotten(token)) {
    job.OnFailedElsewhere(
        {ErrorCode::kResourceExhausted,
         "the epoch reached node " + options_.node +
             " too late: what other agents said of the job before was not kept (" +
             EarlyFrames::BoundsText() + ")",
         culprits},
        now);
  }
}

// The coordinator, restarted, took those that wait for the next run for ranks of this one.
void AgentCore::SayEnded(const EpochInfo& epoch,
                         const std::vector<Rank>& ranks,
                         const std::map<Rank, SessionId>& waiting,
                         TimePoint now) {
  for (const Rank rank : waiting.empty() ? std::vector<Rank>() : ranks) {
    actions_.emplace_back(
        TellCoordinator{LeaveRank{epoch.job, epoch.token, rank, false, "has left this run"}});
  }
  for (const auto& [rank, id] : waiting) {
    SayJoin(sessions_.at(id), now);
  }
}

void AgentCore::SayJoin(const Session& session, TimePoint now) {
  // At least a moment, so that the coordinator can tell who is missing.
  const Duration left = std::max(session.since + session.timeout - now, Duration(1));
  actions_.emplace_back(
      TellCoordinator{JoinRank{session.job,
                               session.rank,
                               session.world_size,
                               session.timeout > Duration(0) ? left : Duration(0)}});
}

void AgentCore::OnJoinRefused(const JoinRefused& refusal) {
  for (auto& [id, session] : sessions_) {
    if (session.job == refusal.job && session.rank == refusal.rank && !session.token &&
        !session.gone) {
      session.gone = true;  // the client closes; nothing more is said about it
      const ErrorCode code = refusal.timed_out ? ErrorCode::kTimeout : ErrorCode::kInvalidArgument;
      actions_.emplace_back(
          SessionReady{.session = id, .outcome = {code, refusal.text, refusal.culprits}});
    }
  }
}

void AgentCore::RefuseWaiting(const std::string& text, TimePoint since) {
  for (auto& [id, session] : sessions_) {
    if (!session.token && !session.gone && session.since < since) {
      session.gone = true;
      actions_.emplace_back(
          SessionReady{.session = id, .outcome = {ErrorCode::kFailedPrecondition, text, {}}});
    }
  }
}

void AgentCore::OnCoordinatorLink(const CoordinatorLink& link, TimePoint now) {
  link_text_ = link.text;
  if (!link.up) {
    link_down_since_ = link_up_ ? now : link_down_since_;
    link_up_ = false;
    return;
  }
  link_up_ = true;
  // It may be another coordinator, which takes ranks that left for present. What it knows it
  // ignores.
  for (const LeaveRank& leave : left_) {
    actions_.emplace_back(TellCoordinator{leave});
  }
  for (const auto& [id, session] : sessions_) {
    if (!session.token && !session.gone) {
      SayJoin(session, now);
    }
  }
}

std::vector<EpochInfo> AgentCore::Epochs() const {
  std::vector<EpochInfo> epochs;
  for (const auto& [token, job] : jobs_) {
    if (!job->failed()) {
      epochs.push_back(job->epoch());
    }
  }
  return epochs;
}

std::vector<WaitingReport> AgentCore::Waiting(TimePoint now) const {
  std::vector<WaitingReport> reports;
  for (const auto& [token, job] : jobs_) {
    for (WaitingFor& op : job->Waiting(now)) {
      reports.push_back({job->epoch().job, std::move(op)});
    }
  }
  return reports;
}

// ---- transport

void AgentCore::OnTransport(const TransportEvent& event, TimePoint now) {
  switch (event.kind) {
    case TransportEvent::Kind::kArrived:
      OnFrame(event, now);
      break;
    case TransportEvent::Kind::kSendDone:
      peers_.OnSendDone(event.token, actions_);
      prober_.OnSendDone(event.token);
      OnTokenDone(event.token, event.ok, now);
      break;
    case TransportEvent::Kind::kReceiveDone:
      OnTokenDone(event.token, event.ok, now);
      break;
    case TransportEvent::Kind::kPeerLost:
      LosePeer(event.peer, event.text, now);
      break;
  }
  Tidy(now);
}

void AgentCore::OnFrame(const TransportEvent& event, TimePoint now) {
  if (event.header.kind == FrameKind::kProbe || event.header.kind == FrameKind::kProbeEcho) {
    prober_.OnFrame(event.header, event.arrival, OpsLive(), now);
    return;
  }
  const JobToken token(event.header.token);
  const auto job = jobs_.find(token);
  if (job != jobs_.end()) {
    job->second->OnFrame(event.header, event.arrival, event.inline_payload, now);
    return;
  }
  // Probably of an epoch that the coordinator has told its sender first. Data it cannot be, which
  // follows our own announce.
  const FrameKind kind = event.header.kind;
  const bool says_something =
      kind == FrameKind::kAnnounce || kind == FrameKind::kAbort || kind == FrameKind::kJobFailed;
  if (event.header.payload_bytes == 0) {
    return;
  }
  if (says_something && !ended_.Contains(token)) {
    early_.Keep(event, now);
  } else {
    actions_.emplace_back(DropPayload{event.arrival});
  }
}

void AgentCore::OnWorkDone(WorkToken token, TimePoint now) {
  OnTokenDone(token, true, now);
  Tidy(now);
}

void AgentCore::OnTokenDone(std::uint64_t token, bool ok, TimePoint now) {
  const ExecutionTable::Owner* found = executions_.Find(token);
  if (found == nullptr) {
    return;  // a control frame
  }
  const ExecutionTable::Owner owner = *found;
  jobs_.at(owner.job)->OnTokenDone(owner.op, token, ok, now);
}

void AgentCore::LosePeer(PeerId peer, const std::string& text, TimePoint now) {
  peers_.Lose(peer, actions_);
  prober_.OnPeerLost(peer);
  for (const JobToken token : Tokens()) {
    jobs_.at(token)->OnPeerLost(peer, text, now);
  }
}

// ---- time

std::vector<JobToken> AgentCore::Tokens() const {
  std::vector<JobToken> tokens;
  for (const auto& [token, job] : jobs_) {
    tokens.push_back(token);
  }
  return tokens;
}

void AgentCore::OnTick(TimePoint now) {
  if (last_tick_ != TimePoint{} && now - last_tick_ > kTickBusy + peers_.lease() / 2 &&
      next_tick_ != kNever && now - next_tick_ > peers_.lease() / 2) {
    peers_.Excuse(now);  // we were stopped, or the clock jumped
  }
  last_tick_ = now;
  next_tick_ = kNever;
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + peers_.lease() / 3;
    for (const auto& [token, job] : jobs_) {
      job->SendHeartbeats();
    }
  }
  std::set<PeerId> silent;
  for (const auto& [token, job] : jobs_) {
    for (const PeerId peer : job->SilentPeers(now)) {
      if (peers_.Expired(peer, peers_.LastHeard(peer), now)) {
        silent.insert(peer);
      } else {
        job->OnPeerLost(peer,
                        "no sign of life in this job for " + SecondsText(peers_.lease()) +
                            " (--peer-lease), though it lives",
                        now);
      }
    }
  }
  prober_.AddSilentPeer(now, silent);
  for (const PeerId peer : silent) {
    LosePeer(peer, "no sign of life for " + SecondsText(peers_.lease()) + " (--peer-lease)", now);
  }
  for (const JobToken token : Tokens()) {
    jobs_.at(token)->OnTick(now);
  }
  prober_.OnTick(now);
  peers_.CloseOld(now, actions_);
  early_.Expire(now);
  if (!link_up_ && now - link_down_since_ > options_.coordinator_patience) {
    RefuseWaiting("the agent of this node (" + options_.node +
                      ") cannot reach the coordinator: " + link_text_,
                  now - options_.coordinator_patience);
  }
  Tidy(now);
}

// Forgets what has ended, and sets the next tick.
void AgentCore::Tidy(TimePoint now) {
  for (const JobToken token : Tokens()) {
    if (jobs_.at(token)->Finished()) {
      jobs_.erase(token);
      ++epochs_version_;
      ended_.Add(token);
    }
  }
  std::erase_if(sessions_, [&](const auto& entry) {
    const auto& [id, session] = entry;
    const bool used = session.token && jobs_.contains(*session.token) &&
                      jobs_.at(*session.token)->UsesSession(id);
    if (!session.gone || used) {
      return false;
    }
    actions_.emplace_back(ReleaseSession{id});
    return true;
  });
  if (prober_.measuring() && OpsLive()) {
    prober_.OnOpsLive();
  }
  Schedule(now);
}

void AgentCore::Schedule(TimePoint now) {
  const bool waits = std::any_of(
      sessions_.begin(), sessions_.end(), [](const auto& entry) { return !entry.second.token; });
  // A tick that is due stays due, however many other events come first.
  if (Busy() || waits || !early_.empty()) {
    // The next heartbeat may be long overdue, as none is sent without a job.
    next_tick_ = std::min(next_tick_, now + std::min<Duration>(kTickBusy, peers_.lease() / 3));
  } else if (!jobs_.empty()) {
    next_tick_ = std::min(next_tick_, next_heartbeat_);
  } else {
    next_tick_ = kNever;
  }
  if (peers_.has_old()) {
    next_tick_ = std::min(next_tick_, now + kTickOld);
  }
  next_tick_ = std::min(next_tick_, prober_.NextTick());
}

}  // namespace maypole::agent
