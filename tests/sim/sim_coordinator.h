// The coordinator's core and the agents' streams to it. Messages of a stream keep their order and
// end with it; the process can be killed and comes back knowing nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/engine/events.h"
#include "server/membership.h"
#include "tests/sim/event_queue.h"

namespace maypole::sim {

class SimCoordinator {
 public:
  struct Agent {
    std::string node;
    std::uint64_t incarnation = 0;
    std::string host;
    std::string data_address;
    std::function<std::vector<agent::EpochInfo>()> epochs;
    // With the stream that the event came by; 0 if there is none.
    std::function<void(agent::ControlEvent, server::ConnectionId)> deliver;
  };

  SimCoordinator(EventQueue& queue,
                 Random& random,
                 Duration delay_max,
                 server::MembershipOptions options)
      : queue_(queue), random_(random), delay_max_(delay_max), options_(std::move(options)) {}

  void Start();
  void Kill();
  // The agent begins to attach, now and after every loss of its stream.
  void AddAgent(int id, Agent agent);
  // Its process ended.
  void RemoveAgent(int id);
  // The agent has seen an event of this stream. Before, what it tells is dropped.
  void Seen(int id, server::ConnectionId connection);
  void Tell(int id, const agent::ControlMessage& message);

  // Jobs that it still knows; empty when all ranks have left.
  std::vector<std::string> Jobs() const;

 private:
  struct Stream {
    Agent agent;
    server::ConnectionId connection = 0;  // 0: none
    bool welcomed = false;                // and the agent has seen it
    TimePoint last_up{};
    TimePoint last_down{};
  };

  void Attach(int id);
  void ToCore(const server::Event& event);
  void Perform(const std::vector<server::Action>& actions);
  void ToAgent(server::ConnectionId connection, agent::ControlEvent event);
  void EndStream(int id, const std::string& text);
  void Tick(int life);

  EventQueue& queue_;
  Random& random_;
  Duration delay_max_;
  server::MembershipOptions options_;
  std::unique_ptr<server::Membership> core_;
  int life_ = 0;
  server::ConnectionId next_connection_ = 1;
  std::map<int, Stream> streams_;
  std::map<server::ConnectionId, int> by_connection_;
  std::map<server::ConnectionId, int> broken_;  // what was under way has come, and is still queued
};

}  // namespace maypole::sim
