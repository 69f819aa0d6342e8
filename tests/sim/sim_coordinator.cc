#include "tests/sim/sim_coordinator.h"

#include <algorithm>
#include <utility>

#include "common/overloaded.h"

namespace maypole::sim {
namespace {

constexpr Duration kRetry = std::chrono::milliseconds(200);
constexpr Duration kTick = std::chrono::seconds(2);

// The two processes have a vocabulary each; between them lies proto/coordinator.proto.
template <typename To, typename From>
To Convert(const From& epoch) {
  To to{.job = epoch.job,
        .token = epoch.token,
        .epoch = epoch.epoch,
        .world_size = epoch.world_size,
        .members = {},
        .reason = epoch.reason,
        .levels = epoch.levels,
        .tuning = epoch.tuning};
  for (const auto& member : epoch.members) {
    to.members.push_back({member.node,
                          member.incarnation,
                          member.host,
                          member.data_address,
                          member.ranks,
                          member.generation});
  }
  return to;
}

}  // namespace

void SimCoordinator::Start() {
  ++life_;
  options_.generation += 1 << 20;
  core_ = std::make_unique<server::Membership>(options_, [this] { return random_.Next(); });
  Tick(life_);
}

void SimCoordinator::Kill() {
  core_.reset();
  ++life_;
  for (auto& [id, stream] : streams_) {
    EndStream(id, "connection refused");
  }
}

void SimCoordinator::Tick(int life) {
  if (life != life_) {
    return;
  }
  Perform(core_->Tick(queue_.now()));
  queue_.After(kTick, [this, life] { Tick(life); });
}

void SimCoordinator::AddAgent(int id, Agent agent) {
  streams_[id].agent = std::move(agent);
  Attach(id);
}

void SimCoordinator::RemoveAgent(int id) {
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) {
    return;
  }
  const server::ConnectionId connection = stream->second.connection;
  streams_.erase(stream);
  if (by_connection_.erase(connection) > 0) {
    queue_.After(random_.Delay(Duration(1), delay_max_), [this, connection, life = life_] {
      if (life == life_) {
        ToCore(server::AgentDetached{connection});
      }
    });
  }
}

void SimCoordinator::Attach(int id) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || found->second.connection != 0) {
    return;
  }
  if (!core_) {
    found->second.agent.deliver(agent::CoordinatorLink{false, "connection refused"}, 0);
    queue_.After(kRetry, [this, id] { Attach(id); });
    return;
  }
  Stream& stream = found->second;
  stream.connection = next_connection_++;
  by_connection_[stream.connection] = id;
  server::AgentAttached hello{.connection = stream.connection,
                              .node = stream.agent.node,
                              .incarnation = stream.agent.incarnation,
                              .host = stream.agent.host,
                              .data_address = stream.agent.data_address,
                              .data_endpoint = stream.agent.data_address,
                              .version = "0.1.0",
                              .protocol = kControlProtocol,
                              .epochs = {}};
  for (const agent::EpochInfo& epoch : stream.agent.epochs()) {
    hello.epochs.push_back(Convert<server::EpochInfo>(epoch));
  }
  stream.last_up = queue_.now() + random_.Delay(Duration(1), delay_max_);
  queue_.At(stream.last_up, [this, hello, life = life_] {
    if (life == life_) {
      ToCore(hello);
    }
  });
}

void SimCoordinator::Tell(int id, const agent::ControlMessage& message) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || !found->second.welcomed) {
    return;
  }
  Stream& stream = found->second;
  const server::ConnectionId connection = stream.connection;
  const server::Event event = std::visit(
      Overloaded{
          [&](const agent::JoinRank& m) -> server::Event {
            return server::RankJoins{connection, m.job, m.rank, m.world_size, m.timeout};
          },
          [&](const agent::LeaveRank& m) -> server::Event {
            return server::RankLeaves{connection, m.job, m.token, m.rank, m.died, m.reason};
          },
          [&](const agent::FailureReport& m) -> server::Event {
            return server::FailureReported{connection, m.job, m.token, m.epoch, m.text, m.culprits};
          },
          [&](const agent::LinkMeasured& m) -> server::Event {
            return server::LinkMeasured{
                connection, m.id, static_cast<server::Survey::Result>(m.result), m.link, m.samples};
          },
          [&](const agent::RowsMeasured& m) -> server::Event {
            server::RowsMeasured rows{connection, m.job, m.token, m.version, {}};
            for (const agent::RowMeasured& row : m.rows) {
              rows.rows.push_back({row.row, row.ops, row.ratio});
            }
            return rows;
          },
      },
      message);
  stream.last_up = std::max(stream.last_up, queue_.now() + random_.Delay(Duration(1), delay_max_));
  queue_.At(stream.last_up, [this, event, connection, life = life_] {
    if (life == life_ && by_connection_.contains(connection)) {
      ToCore(event);
    }
  });
}

void SimCoordinator::ToCore(const server::Event& event) {
  Perform(core_->Handle(event, queue_.now()));
}

void SimCoordinator::Perform(const std::vector<server::Action>& actions) {
  for (const server::Action& action : actions) {
    std::visit(Overloaded{
                   [&](const server::SendWelcome& a) {
                     ToAgent(a.connection, agent::CoordinatorLink{true, "attached"});
                   },
                   [&](const server::RefuseAgent& a) {
                     ToAgent(a.connection, agent::AgentRefused{a.text});
                   },
                   [&](const server::CloseConnection&) {},
                   [&](const server::RefuseJoin& a) {
                     ToAgent(a.connection, agent::JoinRefused{a.job, a.rank, a.text});
                   },
                   [&](const server::SendEpoch& a) {
                     ToAgent(a.connection, Convert<agent::EpochInfo>(a.epoch));
                   },
                   [&](const server::SendTuning& a) {
                     ToAgent(a.connection, agent::TuningChanged{a.job, a.token, a.tuning});
                   },
                   [&](const server::SendProbe& a) {
                     ToAgent(a.connection,
                             agent::ProbeLink{.id = a.id,
                                              .peer = {a.peer.node,
                                                       a.peer.incarnation,
                                                       a.peer.host,
                                                       a.peer.data_address,
                                                       {},
                                                       a.peer.generation},
                                              .measures = a.measures});
                   },
                   [&](const server::SendJobFailed& a) {
                     ToAgent(a.connection, agent::JobFailed{a.job, a.token, a.text, a.culprits});
                   },
                   [&](const server::LogLine&) {},
               },
               action);
  }
}

void SimCoordinator::ToAgent(server::ConnectionId connection, agent::ControlEvent event) {
  const auto id = by_connection_.find(connection);
  if (id == by_connection_.end()) {
    return;
  }
  Stream& to = streams_.at(id->second);
  to.last_down = std::max(to.last_down, queue_.now() + random_.Delay(Duration(1), delay_max_));
  queue_.At(to.last_down, [this, connection, event = std::move(event)] {
    for (const auto* connections : {&by_connection_, &broken_}) {
      const auto still = connections->find(connection);
      if (still != connections->end() && streams_.contains(still->second)) {
        streams_.at(still->second).agent.deliver(event, connection);
      }
    }
  });
}

void SimCoordinator::EndStream(int id, const std::string& text) {
  Stream& stream = streams_.at(id);
  if (stream.connection == 0) {
    return;
  }
  const server::ConnectionId connection = std::exchange(stream.connection, 0);
  by_connection_.erase(connection);
  stream.welcomed = false;
  stream.agent.deliver(agent::CoordinatorLink{false, text}, 0);
  TimePoint again = queue_.now() + random_.Delay(Duration(1), kRetry);
  if (random_.Chance(0.5)) {
    broken_[connection] = id;
    again = std::max(again, stream.last_down + Duration(1));
  }
  queue_.At(again, [this, id] { Attach(id); });
}

void SimCoordinator::Seen(int id, server::ConnectionId connection) {
  const auto stream = streams_.find(id);
  if (stream != streams_.end() && stream->second.connection == connection) {
    stream->second.welcomed = connection != 0;
  }
}

std::vector<std::string> SimCoordinator::Jobs() const {
  std::vector<std::string> jobs;
  if (core_) {
    for (const server::JobView& job : core_->TakeSnapshot(queue_.now()).jobs) {
      jobs.push_back(job.epoch.job + " (" + Name(job.state) + ": " + job.reason + ")");
    }
  }
  return jobs;
}

}  // namespace maypole::sim
