// What an agent that attaches tells about jobs, against what the coordinator knows: after a restart
// it knows nothing, after a lost stream it may know more or less than the agent.
#include <algorithm>
#include <set>
#include <utility>

#include "server/membership.h"
#include "server/text.h"

namespace maypole::server {

void Membership::Reconcile(const AgentAttached& event) {
  for (const EpochInfo& claim : event.epochs) {
    Adopt(claim, event);
  }
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const bool is_claimed =
        std::any_of(event.epochs.begin(), event.epochs.end(), [&](const EpochInfo& claim) {
          return claim.token == job->second.epoch.token;
        });
    for (auto& [rank, seat] : job->second.seats) {
      if (!is_claimed && seat.node == event.node && seat.state == SeatState::kTaken) {
        // Of a failed job there is nothing to join again.
        seat.state =
            job->second.state == JobState::kFailed ? SeatState::kLeft : SeatState::kUnclaimed;
        seat.since = now_;
      }
    }
    ForgetIfEnded(job++);
  }
}

void Membership::Adopt(const EpochInfo& claim, const AgentAttached& event) {
  std::optional<std::string> fault = FaultOf(claim);
  const bool is_member =
      std::any_of(claim.members.begin(), claim.members.end(), [&](const EpochMember& member) {
        return member.node == event.node && member.incarnation == event.incarnation;
      });
  if (!fault && !is_member) {
    fault = "the agent is not among the members";
  }
  if (fault) {
    Log(LogLine::Level::kWarning,
        "ignored an epoch that " + NodeText(event.node) + " told: " + *fault);
    return;
  }
  if (const auto run = ended_.find(claim.token); run != ended_.end()) {
    TellFailed(event.connection, claim, run->second);
    return;
  }
  const auto known = jobs_.find(claim.job);
  if (known == jobs_.end()) {
    Install(claim, event);
  } else if (known->second.epoch.token == claim.token) {
    Confirm(known->second, claim, event);
  } else {
    AdoptOther(known->second, claim, event);
  }
}

// Both know this run.
void Membership::Confirm(Job& job, const EpochInfo& claim, const AgentAttached& event) {
  if (claim.epoch > job.epoch.epoch) {
    Install(claim, event);
    return;
  }
  if (claim.epoch < job.epoch.epoch) {
    actions_.push_back(SendEpoch{event.connection, job.epoch});
  } else if (claim.tuning.version > job.epoch.tuning.version) {
    job.epoch.tuning = claim.tuning;
    job.news.clear();
  } else if (claim.tuning.version < job.epoch.tuning.version) {
    actions_.push_back(
        SendTuning{event.connection, job.epoch.job, job.epoch.token, job.epoch.tuning});
  }
  for (auto& [rank, seat] : job.seats) {
    if (seat.node == event.node && seat.state == SeatState::kUnclaimed) {
      seat.state = SeatState::kTaken;
    }
  }
  WantLinks(job);
}

// The name is known for something else than the run that the agent claims.
void Membership::AdoptOther(Job& job, const EpochInfo& claim, const AgentAttached& event) {
  const std::string text = JobText(claim.job);
  switch (job.state) {
    case JobState::kForming:
      Displace(job, claim, event);
      return;
    case JobState::kRunning:
      if (claim.epoch <= job.epoch.epoch) {
        TellFailed(event.connection,
                   claim,
                   {.text = text + " is known as another run, in epoch " +
                            std::to_string(job.epoch.epoch.value()) + "; this one is in epoch " +
                            std::to_string(claim.epoch.value()) + " and gives way",
                    .culprits = "hosts=" + event.host});
        return;
      }
      Fail(job,
           text + " gives way in epoch " + std::to_string(job.epoch.epoch.value()) +
               " to another run in epoch " + std::to_string(claim.epoch.value()) + " that " +
               NodeText(event.node) + " told",
           "hosts=" + event.host);
      break;
    case JobState::kFailed:
      break;
  }
  Install(claim, event);
}

// The ranks that sit in a job that forms are of the claimed run, whose epoch has not reached their
// agents, or of the next one.
void Membership::Displace(Job& job, const EpochInfo& claim, const AgentAttached& event) {
  std::vector<Join> joins;
  for (const auto& [rank, seat] : job.seats) {
    joins.push_back(JoinOf(job, rank));
    joins.back().displaced = true;
  }
  Install(claim, event);
  Job& installed = jobs_.at(claim.job);
  std::set<ConnectionId> told;
  for (const Join& join : joins) {
    const auto seat = installed.seats.find(join.said.rank);
    const bool is_of_it =
        installed.state == JobState::kRunning && join.said.world_size == claim.world_size &&
        seat != installed.seats.end() && ConnectionOf(seat->second.node) == join.said.connection;
    if (!is_of_it) {
      held_.push_back(join);
      continue;
    }
    seat->second.state = SeatState::kTaken;
    if (told.insert(join.said.connection).second) {
      actions_.push_back(SendEpoch{join.said.connection, claim});
    }
  }
}

// Takes over a run as the agent tells it. Members that have not attached get the lease to do so.
void Membership::Install(const EpochInfo& claim, const AgentAttached& event) {
  Job job{.state = JobState::kRunning, .since = now_, .epoch = claim, .seats = {}, .reason = ""};
  job.reason = "adopted in epoch " + std::to_string(claim.epoch.value()) + " as " +
               NodeText(event.node) + " told when it attached; " + claim.reason;
  std::vector<std::string> replaced;
  for (const EpochMember& member : claim.members) {
    const auto [agent, is_new] = agents_.try_emplace(member.node,
                                                     Agent{.incarnation = member.incarnation,
                                                           .host = member.host,
                                                           .data_address = member.data_address,
                                                           .data_endpoint = "",
                                                           .version = "",
                                                           .connection = 0,
                                                           .since = now_,
                                                           .generation = generation_});
    if (agent->second.incarnation != member.incarnation) {
      replaced.push_back(member.node);
    }
    const bool may_have_left = member.node != event.node && agent->second.connection != 0;
    for (Rank rank : member.ranks) {
      job.seats[rank] = {.node = member.node,
                         .state = may_have_left ? SeatState::kUnclaimed : SeatState::kTaken,
                         .since = now_};
    }
  }
  ++counters_.jobs_adopted;
  Log(LogLine::Level::kInfo, JobText(claim.job) + " runs: " + job.reason);
  Job& installed = jobs_[claim.job] = std::move(job);
  WantLinks(installed);
  for (const std::string& node : replaced) {
    const std::vector<Rank> ranks = installed.RanksOf(node);
    for (Rank rank : ranks) {
      installed.seats[rank].state = SeatState::kLeft;
    }
    Fail(installed,
         JobText(claim.job) + " lost " + RankText(ranks) + ": the agent of " + NodeText(node) +
             " has been started anew",
         "ranks=" + RankList(ranks) + ";hosts=" + agents_[node].host);
  }
}

void Membership::TellFailed(ConnectionId connection, const EpochInfo& epoch, const EndedRun& run) {
  actions_.push_back(SendJobFailed{connection, epoch.job, epoch.token, run.text, run.culprits});
}

}  // namespace maypole::server
