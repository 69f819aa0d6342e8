// Membership's rules for jobs: joining, forming, leaving, failing, being forgotten.
#include <algorithm>
#include <utility>

#include "proto/handshake.h"
#include "proto/text.h"
#include "server/membership.h"
#include "server/text.h"
#include "server/topology.h"

namespace maypole::server {
namespace {

constexpr std::size_t kEndedRunsMax = 4096;
constexpr Duration kWaitReportedAfter = std::chrono::seconds(10);

// What is wrong with a join whatever the job; empty if nothing.
std::optional<std::string> FaultOf(const RankJoins& event, std::uint32_t world_size_max) {
  if (event.job.empty() || event.job.size() > kJobNameBytesMax || !IsPrintableUtf8(event.job)) {
    return "this name is not allowed: 1 to " + std::to_string(kJobNameBytesMax) +
           " bytes of printable text";
  }
  const std::string world = std::to_string(event.world_size);
  if (event.world_size == 0 || event.world_size > world_size_max) {
    return "world size " + world + " is not allowed: 1 to " + std::to_string(world_size_max);
  }
  if (event.rank.value() >= event.world_size) {
    return "rank " + std::to_string(event.rank.value()) + " does not exist in a world of " + world +
           " (ranks 0 to " + std::to_string(event.world_size - 1) + ")";
  }
  return std::nullopt;
}

}  // namespace

void Membership::On(const RankJoins& event) {
  const std::string* node = NodeOf(event.connection);
  if (node == nullptr || RejoinUnclaimed(event, *node)) {
    return;
  }
  const Join join{.said = event,
                  .since = now_,
                  .deadline = event.timeout > Duration(0) ? Later(now_, event.timeout) : kNever};
  if (MustWait(join) && !FaultOf(event, options_.world_size_max)) {
    held_.push_back(join);
    return;
  }
  Admit(join, *node);
}

// What a rank said that sits in a job that forms.
Membership::Join Membership::JoinOf(const Job& job, Rank rank) const {
  const Seat& seat = job.seats.at(rank);
  return {.said = {.connection = ConnectionOf(seat.node),
                   .job = job.epoch.job,
                   .rank = rank,
                   .world_size = job.epoch.world_size},
          .since = seat.since,
          .deadline = seat.deadline};
}

bool Membership::MustWait(const Join& join) const {
  const auto job = jobs_.find(join.said.job);
  if (job == jobs_.end() || job->second.state != JobState::kRunning ||
      now_ - join.since >= options_.agent_lease) {
    return false;
  }
  return join.displaced ||
         std::any_of(job->second.seats.begin(), job->second.seats.end(), [](const auto& entry) {
           return entry.second.state == SeatState::kLeft;
         });
}

void Membership::AdmitHeld() {
  std::vector<Join> still_held;
  for (Join& held : std::exchange(held_, {})) {
    const std::string* node = NodeOf(held.said.connection);
    if (node != nullptr && !MustWait(held)) {
      Admit(held, *node);
    } else if (node != nullptr && now_ < held.deadline) {
      still_held.push_back(std::move(held));
    } else if (node != nullptr) {
      const Job& job = jobs_.at(held.said.job);
      std::vector<Rank> sitting;
      for (const auto& [rank, seat] : job.seats) {
        if (seat.state != SeatState::kLeft) {
          sitting.push_back(rank);
        }
      }
      TakeBack(held,
               RankText(sitting) + " of its last run did not leave; end them",
               "waiting_ranks=" + RankList(sitting));
    }
  }
  held_ = std::move(still_held);
}

void Membership::TakeBack(const Join& join, const std::string& why, const std::string& culprits) {
  const RankJoins& said = join.said;
  actions_.push_back(RefuseJoin{.connection = said.connection,
                                .job = said.job,
                                .rank = said.rank,
                                .text = "rank " + std::to_string(said.rank.value()) +
                                        " has waited " + SecondsText(now_ - join.since) + " for " +
                                        JobText(said.job) + " to form: " + why +
                                        ", or raise the timeout",
                                .timed_out = true,
                                .culprits = culprits});
}

void Membership::Admit(const Join& join, const std::string& node) {
  const RankJoins& event = join.said;
  if (std::optional<std::string> refusal = RefusalOf(event, node)) {
    ++counters_.joins_refused;
    Log(LogLine::Level::kWarning, "refused a rank on " + NodeText(node) + ": " + *refusal);
    actions_.push_back(RefuseJoin{event.connection, event.job, event.rank, *std::move(refusal)});
    return;
  }
  Job& job = jobs_[event.job];
  if (job.seats.empty() || job.state == JobState::kFailed) {
    job = Job{.state = JobState::kForming,
              .since = now_,
              .epoch = {},
              .seats = {},
              .gave_up = {},
              .reason = ""};
    job.epoch.job = event.job;
    job.epoch.world_size = event.world_size;
  }
  job.seats[event.rank] = {
      .node = node, .state = SeatState::kTaken, .since = join.since, .deadline = join.deadline};
  job.gave_up.erase(event.rank);
  if (job.is_complete()) {
    job.complete_since = now_;
    WantLinks(job);
    if (!WaitsForLinks(job)) {
      Form(job);
    }
  }
}

void Membership::ReportWait(Job& job) {
  if (now_ - job.since >= kWaitReportedAfter && !std::exchange(job.wait_reported, true)) {
    Log(LogLine::Level::kWarning,
        JobText(job.epoch.job) + " has been forming for " + SecondsText(now_ - job.since) + ": " +
            ReasonOf(job));
  }
}

// Ranks that have waited as long as they would for the job to form are told who is missing.
void Membership::ExpireJoins(Job& job) {
  std::vector<Rank> expired;
  for (const auto& [rank, seat] : job.seats) {
    if (now_ >= seat.deadline) {
      expired.push_back(rank);
    }
  }
  const std::string reason = ReasonOf(job);
  const std::string awaited = "waiting_ranks=" + RankList(job.AwaitedRanks());
  for (const Rank rank : expired) {
    TakeBack(JoinOf(job, rank), reason + "; start them", awaited);
    job.seats.erase(rank);
    job.gave_up.insert(rank);
  }
}

std::optional<std::string> Membership::RefusalOf(const RankJoins& event,
                                                 const std::string& node) const {
  if (std::optional<std::string> fault = FaultOf(event, options_.world_size_max)) {
    return JobText(event.job) + ": " + *fault;
  }
  const auto it = jobs_.find(event.job);
  if (it != jobs_.end()) {
    return ConflictOf(event, node, it->second);
  }
  if (jobs_.size() >= options_.jobs_max) {
    return JobText(event.job) + ": there are " + std::to_string(jobs_.size()) +
           " jobs already, as many as this coordinator allows";
  }
  return std::nullopt;
}

std::optional<std::string> Membership::ConflictOf(const RankJoins& event,
                                                  const std::string& node,
                                                  const Job& job) const {
  const std::string job_text = JobText(event.job);
  const std::string rank = "rank " + std::to_string(event.rank.value());
  switch (job.state) {
    case JobState::kFailed:
      return std::nullopt;
    case JobState::kRunning:
      return job_text + " is already running (world size " + std::to_string(job.epoch.world_size) +
             " on " + std::to_string(job.epoch.members.size()) + " nodes, for " +
             SecondsText(now_ - job.since) + "); choose another name or wait for its end";
    case JobState::kForming:
      break;
  }
  if (job.epoch.world_size != event.world_size) {
    const auto& [first, seat] = *job.seats.begin();
    return job_text + " was announced with world size " + std::to_string(job.epoch.world_size) +
           " (rank " + std::to_string(first.value()) + " on " + NodeText(seat.node) + "), but " +
           rank + " on " + NodeText(node) + " says " + std::to_string(event.world_size);
  }
  if (const auto seat = job.seats.find(event.rank); seat != job.seats.end()) {
    return job_text + ": " + rank + " has already joined, on " + NodeText(seat->second.node) +
           "; a second one is on " + NodeText(node);
  }
  return std::nullopt;
}

// An agent whose stream broke just as the job formed says its join again: it gets the epoch that it
// missed.
bool Membership::RejoinUnclaimed(const RankJoins& event, const std::string& node) {
  const auto job = jobs_.find(event.job);
  if (job == jobs_.end() || job->second.state != JobState::kRunning ||
      job->second.epoch.world_size != event.world_size) {
    return false;
  }
  const auto seat = job->second.seats.find(event.rank);
  if (seat == job->second.seats.end() || seat->second.node != node ||
      seat->second.state != SeatState::kUnclaimed) {
    return false;
  }
  seat->second.state = SeatState::kTaken;
  actions_.push_back(SendEpoch{event.connection, job->second.epoch});
  return true;
}

void Membership::Form(Job& job) {
  const Topology topology = PlanTopology(job.Nodes(), links_, LabelsOf(job));
  do {
    job.epoch.token = JobToken(random_());
  } while (job.epoch.token.value() == 0 || ended_.contains(job.epoch.token));
  job.epoch.epoch = Epoch(1);
  job.epoch.reason = topology.reason;
  job.epoch.levels = topology.levels;
  for (const PlannedMember& member : topology.ring) {
    const Agent& agent = agents_[member.node];
    job.epoch.members.push_back({.node = member.node,
                                 .incarnation = agent.incarnation,
                                 .host = agent.host,
                                 .data_address = agent.data_address,
                                 .ranks = member.ranks,
                                 .generation = agent.generation});
  }
  Recall(job);
  job.epoch.tuning = TableFor(job, topology.links);
  if (topology.links) {
    job.level_costs = topology.links->levels;
  }
  job.epoch.tuning.version = 1;
  job.state = JobState::kRunning;
  job.reason = "all " + std::to_string(job.epoch.world_size) + " ranks joined within " +
               SecondsText(now_ - job.since) + "; " + topology.reason;
  job.since = now_;
  ++counters_.epochs_issued;
  for (const EpochMember& member : job.epoch.members) {
    actions_.push_back(SendEpoch{ConnectionOf(member.node), job.epoch});
  }
  Log(LogLine::Level::kInfo, JobText(job.epoch.job) + " runs: " + job.reason);
}

void Membership::On(const RankLeaves& event) {
  const auto is_held = [&](const Join& held) {
    return held.said.connection == event.connection && held.said.job == event.job &&
           held.said.rank == event.rank;
  };
  if (event.token.value() == 0 && std::erase_if(held_, is_held) > 0) {
    return;
  }
  const std::string* node = NodeOf(event.connection);
  const auto it = jobs_.find(event.job);
  if (node == nullptr || it == jobs_.end()) {
    return;
  }
  Job& job = it->second;
  const auto seat = job.seats.find(event.rank);
  if (seat == job.seats.end() || seat->second.node != *node) {
    return;
  }
  const bool is_unformed = event.token.value() == 0;
  if (job.state == JobState::kForming) {
    if (is_unformed) {
      job.seats.erase(seat);
    }
  } else if (is_unformed || event.token == job.epoch.token) {
    seat->second.state = SeatState::kLeft;
    // A rank that left just as the job formed will never take part in it, so the others must not
    // wait for it.
    if (event.died || is_unformed) {
      Fail(job,
           "rank " + std::to_string(event.rank.value()) + " of " + JobText(event.job) + " on " +
               NodeText(*node) + " is gone: " + event.reason,
           "ranks=" + std::to_string(event.rank.value()) + ";hosts=" + agents_[*node].host);
    }
  }
  ForgetIfEnded(it);
}

void Membership::On(const FailureReported& event) {
  const std::string* node = NodeOf(event.connection);
  const auto it = jobs_.find(event.job);
  if (node == nullptr || it == jobs_.end()) {
    return;
  }
  Job& job = it->second;
  if (event.token != job.epoch.token || event.epoch < job.epoch.epoch ||
      job.RanksOf(*node).empty()) {
    return;
  }
  if (job.state == JobState::kRunning) {
    Fail(job, event.text, event.culprits);
    job.reason += " (reported by " + NodeText(*node) + ")";
  }
}

void Membership::Fail(Job& job, const std::string& text, const std::string& culprits) {
  if (job.state != JobState::kRunning) {
    return;
  }
  job.state = JobState::kFailed;
  job.since = now_;
  job.reason = text;
  ++counters_.jobs_failed;
  const EndedRun run{.text = text, .culprits = culprits};
  for (const EpochMember& member : job.epoch.members) {
    if (const ConnectionId connection = ConnectionOf(member.node); connection != 0) {
      TellFailed(connection, job.epoch, run);
    }
    Reconnect(member.node);
  }
  Remember(job.epoch.token, run);
  Log(LogLine::Level::kWarning, JobText(job.epoch.job) + " failed: " + text);
}

// An agent that gave another one up has closed its end of their connection, and the other may not
// know: what it sends on its own end is lost then.
void Membership::Reconnect(const std::string& node) {
  if (const auto agent = agents_.find(node); agent != agents_.end()) {
    agent->second.generation = ++generation_;
  }
}

void Membership::ForgetIfEnded(Jobs::iterator job) {
  if (!job->second.has_ended()) {
    return;
  }
  if (job->second.state == JobState::kRunning) {
    Remember(job->second.epoch.token, {.text = JobText(job->first) + " has ended", .culprits = ""});
    Log(LogLine::Level::kInfo, JobText(job->first) + " has ended: all its ranks have left");
  }
  jobs_.erase(job);
}

void Membership::Remember(JobToken token, EndedRun run) {
  if (ended_.emplace(token, std::move(run)).second) {
    ended_order_.push_back(token);
  }
  if (ended_order_.size() > kEndedRunsMax) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

}  // namespace maypole::server
