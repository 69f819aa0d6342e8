#include "server/membership.h"

#include <utility>

#include "proto/text.h"
#include "server/text.h"
#include "server/topology.h"

namespace maypole::server {

Membership::Membership(MembershipOptions options, Random random)
    : options_(std::move(options)),
      random_(std::move(random)),
      survey_(random_),
      generation_(options_.generation) {}

std::vector<Action> Membership::Handle(const Event& event, TimePoint now) {
  now_ = now;
  std::visit([this](const auto& e) { On(e); }, event);
  AdmitHeld();
  Progress();
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
    LoseAgent(node, "has not been attached for " + SecondsText(now - agents_[node].since));
  }
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (auto& [rank, seat] : job->second.seats) {
      if (seat.state == SeatState::kUnclaimed && now - seat.since >= options_.agent_lease) {
        seat.state = SeatState::kLeft;
      }
    }
    // A complete one waits for its links only, and not for long.
    if (job->second.state == JobState::kForming && !job->second.is_complete()) {
      ReportWait(job->second);
      ExpireJoins(job->second);
    }
    ForgetIfEnded(job++);
  }
  AdmitHeld();
  Progress();
  return std::exchange(actions_, {});
}

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
                         .since = now_,
                         .labels = event.labels,
                         .generation = generation_};
  connections_[event.connection] = event.node;
  actions_.push_back(SendWelcome{event.connection});
  Log(LogLine::Level::kInfo, NodeText(event.node) + " attached, data at " + event.data_endpoint);
  survey_.Add(event.node);
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
          SecondsText(options_.agent_lease));
  Detach(std::string(*node));
}

void Membership::Detach(const std::string& node) {
  Agent& agent = agents_[node];
  std::erase_if(held_, [&](const Join& held) { return held.said.connection == agent.connection; });
  connections_.erase(agent.connection);
  survey_.Remove(node);
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
  survey_.Remove(node);
  survey_.Forget(node);
  links_.Forget(node);
  Unlearn(node);
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

void Membership::Log(LogLine::Level level, std::string text) {
  actions_.push_back(LogLine{level, std::move(text)});
}

Snapshot Membership::TakeSnapshot(TimePoint now) const {
  Snapshot snapshot{.nodes = {}, .links = {}, .jobs = {}, .counters = counters_};
  for (const auto& [pair, cost] : links_.all()) {
    snapshot.links.push_back({.a = pair.first,
                              .b = pair.second,
                              .model = cost.model,
                              .samples = cost.samples,
                              .since = now - cost.measured});
  }
  for (const auto& [node, agent] : agents_) {
    snapshot.nodes.push_back({.node = node,
                              .host = agent.host,
                              .data_endpoint = agent.data_endpoint,
                              .version = agent.version,
                              .connection = agent.connection,
                              .since = now - agent.since,
                              .labels = agent.labels});
  }
  for (const auto& [name, job] : jobs_) {
    JobView& view = snapshot.jobs.emplace_back();
    view.state = job.state;
    view.epoch = job.epoch;
    view.level_costs = job.level_costs;
    view.reason = ReasonOf(job);
    view.since = now - job.since;
    for (const auto& [row, news] : job.news) {
      if (news.measured) {
        view.measured.push_back(*news.measured);
      }
    }
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
