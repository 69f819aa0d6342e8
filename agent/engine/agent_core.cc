#include "agent/engine/agent_core.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/overloaded.h"

namespace maypole::agent {
namespace {

constexpr Duration kTickBusy = std::chrono::milliseconds(100);
constexpr Duration kUnknownFrameLife = std::chrono::seconds(10);
constexpr std::size_t kUnknownFramesMax = 4096;
constexpr std::size_t kEndedMax = 1024;
constexpr std::size_t kLeftMax = 1024;

}  // namespace

AgentCore::AgentCore(CoreOptions options, Memory& memory)
    : options_(std::move(options)),
      memory_(memory),
      peers_(options_.window_bytes, options_.lease),
      plans_(options_.plan_steps_max),
      prober_(peers_, memory_, actions_) {}

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
                             {},
                             false});
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
  if (jobs_.contains(epoch.token) ||
      std::find(ended_.begin(), ended_.end(), epoch.token) != ended_.end()) {
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
  const bool is_complete = local.size() == self->ranks.size();
  const std::string reason = "a rank of node " + options_.node + " left while the job formed";
  const std::string culprits = "hosts=" + options_.host;
  if (local.empty()) {
    actions_.emplace_back(
        TellCoordinator{FailureReport{epoch.job, epoch.token, epoch.epoch, reason, culprits}});
    return;
  }
  for (const auto& [rank, id] : local) {
    sessions_.at(id).token = epoch.token;
  }
  const JobToken token = epoch.token;
  const auto member = Member(static_cast<std::uint32_t>(self - epoch.members.begin()));
  const CoreContext context{options_, memory_, peers_, plans_, actions_, executions_, next_order_};
  jobs_.emplace(token,
                std::make_unique<Job>(std::move(epoch), member, std::move(local), context, now));
  ++epochs_version_;
  for (UnknownFrame& frame : std::exchange(unknown_, {})) {
    if (frame.header.token == token.value()) {
      jobs_.at(token)->OnFrame(frame.header, frame.arrival, frame.body, now);
    } else {
      unknown_.push_back(frame);
    }
  }
  if (!is_complete) {
    jobs_.at(token)->OnFailedElsewhere({ErrorCode::kPeerLost, reason, culprits}, now);
  }
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
      // At least a moment, so that the coordinator can tell who is missing.
      const Duration left = std::max(session.since + session.timeout - now, Duration(1));
      actions_.emplace_back(
          TellCoordinator{JoinRank{session.job,
                                   session.rank,
                                   session.world_size,
                                   session.timeout > Duration(0) ? left : Duration(0)}});
    }
  }
}

std::vector<EpochInfo> AgentCore::Epochs() const {
  std::vector<EpochInfo> epochs;
  for (const auto& [token, job] : jobs_) {
    epochs.push_back(job->epoch());
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
  // Probably of an epoch that the coordinator has told its sender first.
  const bool ended = std::find(ended_.begin(), ended_.end(), token) != ended_.end();
  if (!ended && unknown_.size() < kUnknownFramesMax) {
    unknown_.push_back(
        {event.header, event.arrival, event.inline_payload, now + kUnknownFrameLife});
  } else if (event.header.payload_bytes > 0) {
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
    job->AddSilentPeers(now, silent);
  }
  prober_.AddSilentPeer(now, silent);
  for (const PeerId peer : silent) {
    LosePeer(peer, "no sign of life for " + SecondsText(peers_.lease()) + " (--peer-lease)", now);
  }
  for (const JobToken token : Tokens()) {
    jobs_.at(token)->OnTick(now);
  }
  prober_.OnTick(now);
  while (!unknown_.empty() && unknown_.front().expires <= now) {
    if (unknown_.front().header.payload_bytes > 0) {
      actions_.emplace_back(DropPayload{unknown_.front().arrival});
    }
    unknown_.pop_front();
  }
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
      ended_.push_back(token);
      if (ended_.size() > kEndedMax) {
        ended_.pop_front();
      }
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
  if (Busy() || waits || !unknown_.empty()) {
    next_tick_ = std::min(next_tick_, now + kTickBusy);
  } else if (!jobs_.empty()) {
    next_tick_ = std::min(next_tick_, next_heartbeat_);
  } else {
    next_tick_ = kNever;
  }
  next_tick_ = std::min(next_tick_, prober_.NextTick());
}

}  // namespace maypole::agent
