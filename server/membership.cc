#include "server/membership.h"

#include <algorithm>
#include <utility>

#include "proto/handshake.h"
#include "proto/text.h"
#include "server/topology.h"

namespace maypole::server {
namespace {

constexpr std::size_t kEndedRunsMax = 4096;

std::string Quoted(const std::string& name) {
  return "\"" + std::string(CutUtf8(name, kJobNameBytesMax)) + "\"";
}

std::string JobText(const std::string& name) {
  return "job " + Quoted(name);
}

std::string Seconds(Duration duration) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

Membership::Membership(MembershipOptions options, Random random)
    : options_(std::move(options)), random_(std::move(random)) {}

std::vector<Action> Membership::Handle(const Event& event, TimePoint now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  return std::exchange(actions_, {});
}

std::vector<Action> Membership::Tick(TimePoint now) {
  now_ = now;
  std::vector<std::string> lost;
  for (const auto& [node, agent] : agents_) {
    if (agent.connection == 0 && now - agent.since >= options_.agent_lease) {
      lost.push_back(node);
    }
  }
  for (const std::string& node : lost) {
    LoseAgent(node, "has not been attached for " + Seconds(now - agents_[node].since));
  }
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (auto& [rank, seat] : job->second.seats) {
      if (seat.state == SeatState::kUnclaimed && now - seat.since >= options_.agent_lease) {
        seat.state = SeatState::kLeft;
      }
    }
    ForgetIfEnded(job++);
  }
  return std::exchange(actions_, {});
}

// ---- agents

void Membership::On(const AgentAttached& event) {
  if (std::optional<std::string> refusal = RefusalOf(event)) {
    ++counters_.agents_refused;
    Log(LogLine::Level::kWarning, "refused an agent: " + *refusal);
    actions_.push_back(RefuseAgent{event.connection, *std::move(refusal)});
    return;
  }
  MakeRoomFor(event);
  agents_[event.node] = {.incarnation = event.incarnation,
                         .host = event.host,
                         .data_address = event.data_address,
                         .data_endpoint = event.data_endpoint,
                         .version = event.version,
                         .connection = event.connection,
                         .since = now_};
  connections_[event.connection] = event.node;
  actions_.push_back(SendWelcome{event.connection});
  Log(LogLine::Level::kInfo, NodeText(event.node) + " attached, data at " + event.data_endpoint);
  Reconcile(event);
}

std::optional<std::string> Membership::RefusalOf(const AgentAttached& event) const {
  if (event.protocol != kControlProtocol) {
    return "the agent of node " + Quoted(event.node) + " (version " + event.version +
           ") speaks protocol " + std::to_string(event.protocol) + ", this coordinator (version " +
           options_.version + ") protocol " + std::to_string(kControlProtocol) +
           "; run the same release on both";
  }
  if (event.node.empty() || event.node.size() > kNodeNameBytesMax || !IsPrintableUtf8(event.node)) {
    return "node name " + Quoted(event.node) + " is not allowed: 1 to " +
           std::to_string(kNodeNameBytesMax) + " bytes of printable text";
  }
  const auto known = agents_.find(event.node);
  if (known == agents_.end()) {
    if (agents_.size() >= options_.nodes_max) {
      return "there are " + std::to_string(agents_.size()) +
             " nodes already, as many as this coordinator allows";
    }
    return std::nullopt;
  }
  const Agent& other = known->second;
  if (other.connection != 0 && other.incarnation != event.incarnation) {
    return "node " + Quoted(event.node) + " is already attached, by the agent at " +
           other.data_endpoint + " on host " + other.host + " (this one is at " +
           event.data_endpoint + " on host " + event.host +
           "); stop one of them or give it another --node";
  }
  return std::nullopt;
}

// The same process with a new stream, or a new process after the old one's end.
void Membership::MakeRoomFor(const AgentAttached& event) {
  const auto known = agents_.find(event.node);
  if (known == agents_.end()) {
    return;
  }
  if (known->second.incarnation != event.incarnation) {
    LoseAgent(event.node, "has been started anew");
  } else if (known->second.connection != 0) {
    actions_.push_back(CloseConnection{known->second.connection});
    Detach(event.node);
  }
}

void Membership::On(const AgentDetached& event) {
  const std::string* node = NodeOf(event.connection);
  if (node == nullptr) {
    return;
  }
  Log(LogLine::Level::kWarning,
      NodeText(*node) + " is detached; its jobs go on, and fail if it stays away for " +
          Seconds(options_.agent_lease));
  Detach(std::string(*node));
}

void Membership::Detach(const std::string& node) {
  Agent& agent = agents_[node];
  connections_.erase(agent.connection);
  agent.connection = 0;
  agent.since = now_;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (job->second.state == JobState::kForming) {
      std::erase_if(job->second.seats, [&](const auto& seat) { return seat.second.node == node; });
    }
    ForgetIfEnded(job++);
  }
}

void Membership::LoseAgent(const std::string& node, const std::string& why) {
  const std::string agent_text = "the agent of " + NodeText(node) + " " + why;
  Log(LogLine::Level::kWarning, agent_text);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    const std::vector<Rank> ranks = job->second.RanksOf(node);
    if (!ranks.empty()) {
      Fail(job->second,
           JobText(job->first) + " lost " + RankText(ranks) + ": " + agent_text,
           "ranks=" + RankList(ranks) + ";hosts=" + agents_[node].host);
    }
    for (Rank rank : ranks) {
      job->second.seats[rank].state = SeatState::kLeft;
    }
    ForgetIfEnded(job++);
  }
  connections_.erase(agents_[node].connection);
  agents_.erase(node);
}

const std::string* Membership::NodeOf(ConnectionId connection) const {
  const auto it = connections_.find(connection);
  return it == connections_.end() ? nullptr : &it->second;
}

ConnectionId Membership::ConnectionOf(const std::string& node) const {
  const auto it = agents_.find(node);
  return it == agents_.end() ? 0 : it->second.connection;
}

std::string Membership::NodeText(const std::string& node) const {
  const auto it = agents_.find(node);
  return "node " + node + (it == agents_.end() ? "" : " (host " + it->second.host + ")");
}

// ---- jobs

void Membership::On(const RankJoins& event) {
  const std::string* node = NodeOf(event.connection);
  if (node == nullptr || RejoinUnclaimed(event, *node)) {
    return;
  }
  if (std::optional<std::string> refusal = RefusalOf(event, *node)) {
    ++counters_.joins_refused;
    Log(LogLine::Level::kWarning, "refused a rank on " + NodeText(*node) + ": " + *refusal);
    actions_.push_back(RefuseJoin{event.connection, event.job, event.rank, *std::move(refusal)});
    return;
  }
  Job& job = jobs_[event.job];
  if (job.seats.empty() || job.state == JobState::kFailed) {
    job = Job{.state = JobState::kForming, .since = now_, .epoch = {}, .seats = {}, .reason = ""};
    job.epoch.job = event.job;
    job.epoch.world_size = event.world_size;
  }
  job.seats[event.rank] = {.node = *node, .state = SeatState::kTaken, .since = now_};
  if (job.is_complete()) {
    Form(job);
  }
}

std::optional<std::string> Membership::RefusalOf(const RankJoins& event,
                                                 const std::string& node) const {
  const std::string job_text = JobText(event.job);
  const std::string rank = "rank " + std::to_string(event.rank.value());
  const std::string world = std::to_string(event.world_size);
  if (event.job.empty() || event.job.size() > kJobNameBytesMax || !IsPrintableUtf8(event.job)) {
    return job_text + ": this name is not allowed: 1 to " + std::to_string(kJobNameBytesMax) +
           " bytes of printable text";
  }
  if (event.world_size == 0 || event.world_size > options_.world_size_max) {
    return job_text + ": world size " + world + " is not allowed: 1 to " +
           std::to_string(options_.world_size_max);
  }
  if (event.rank.value() >= event.world_size) {
    return job_text + ": " + rank + " does not exist in a world of " + world + " (ranks 0 to " +
           std::to_string(event.world_size - 1) + ")";
  }
  const auto it = jobs_.find(event.job);
  if (it == jobs_.end()) {
    return jobs_.size() < options_.jobs_max
               ? std::nullopt
               : std::optional(job_text + ": there are " + std::to_string(jobs_.size()) +
                               " jobs already, as many as this coordinator allows");
  }
  const Job& job = it->second;
  switch (job.state) {
    case JobState::kFailed:
      return std::nullopt;
    case JobState::kRunning:
      return job_text + " is already running (world size " + std::to_string(job.epoch.world_size) +
             " on " + std::to_string(job.epoch.members.size()) + " nodes, for " +
             Seconds(now_ - job.since) + "); choose another name or wait for its end";
    case JobState::kForming:
      break;
  }
  if (job.epoch.world_size != event.world_size) {
    const auto& [first, seat] = *job.seats.begin();
    return job_text + " was announced with world size " + std::to_string(job.epoch.world_size) +
           " (rank " + std::to_string(first.value()) + " on " + NodeText(seat.node) + "), but " +
           rank + " on " + NodeText(node) + " says " + world;
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
  const Topology topology = PlanTopology(job.Nodes());
  do {
    job.epoch.token = JobToken(random_());
  } while (job.epoch.token.value() == 0 || ended_.contains(job.epoch.token));
  job.epoch.epoch = Epoch(1);
  job.epoch.reason = topology.reason;
  for (const PlannedMember& member : topology.ring) {
    const Agent& agent = agents_[member.node];
    job.epoch.members.push_back({.node = member.node,
                                 .incarnation = agent.incarnation,
                                 .host = agent.host,
                                 .data_address = agent.data_address,
                                 .ranks = member.ranks});
  }
  job.state = JobState::kRunning;
  job.reason = "all " + std::to_string(job.epoch.world_size) + " ranks joined within " +
               Seconds(now_ - job.since) + "; " + topology.reason;
  job.since = now_;
  ++counters_.epochs_issued;
  for (const EpochMember& member : job.epoch.members) {
    actions_.push_back(SendEpoch{ConnectionOf(member.node), job.epoch});
  }
  Log(LogLine::Level::kInfo, JobText(job.epoch.job) + " runs: " + job.reason);
}

void Membership::On(const RankLeaves& event) {
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
  Fail(job, event.text, event.culprits);
  job.reason += " (reported by " + NodeText(*node) + ")";
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
  }
  Remember(job.epoch.token, run);
  Log(LogLine::Level::kWarning, JobText(job.epoch.job) + " failed: " + text);
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

void Membership::Log(LogLine::Level level, std::string text) {
  actions_.push_back(LogLine{level, std::move(text)});
}

Snapshot Membership::TakeSnapshot(TimePoint now) const {
  Snapshot snapshot{.nodes = {}, .jobs = {}, .counters = counters_};
  for (const auto& [node, agent] : agents_) {
    snapshot.nodes.push_back({.node = node,
                              .host = agent.host,
                              .data_endpoint = agent.data_endpoint,
                              .version = agent.version,
                              .connection = agent.connection,
                              .since = now - agent.since});
  }
  for (const auto& [name, job] : jobs_) {
    JobView& view = snapshot.jobs.emplace_back();
    view.state = job.state;
    view.epoch = job.epoch;
    view.reason = ReasonOf(job);
    view.since = now - job.since;
    if (job.state == JobState::kForming) {
      view.missing_ranks = job.MissingRanks();
      for (const PlannedMember& member : PlanTopology(job.Nodes()).ring) {
        view.epoch.members.push_back({.node = member.node,
                                      .incarnation = 0,
                                      .host = agents_.at(member.node).host,
                                      .data_address = "",
                                      .ranks = member.ranks});
      }
    }
  }
  return snapshot;
}

}  // namespace maypole::server
