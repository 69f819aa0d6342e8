// A Membership with agents, for tests: remembers what was sent to which connection.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>

#include "server/membership.h"

namespace maypole::server {

inline constexpr Duration kLease = std::chrono::seconds(10);

struct Cluster {
  explicit Cluster(MembershipOptions options = {.version = "1.0", .agent_lease = kLease},
                   std::uint64_t first_token = 1000)
      : membership(std::move(options), [token = first_token]() mutable { return token++; }) {}

  // The attachment of node `name` in its first life; tests change what they need.
  AgentAttached Hello(const std::string& node, std::uint64_t incarnation = 1) {
    return {.connection = ++last_connection,
            .node = node,
            .incarnation = incarnation,
            .host = "host-" + node,
            .data_address = "address-" + node,
            .data_endpoint = node + ":7710",
            .version = "1.0",
            .protocol = kControlProtocol,
            .epochs = {}};
  }

  void Do(const Event& event) {
    last = membership.Handle(event, now);
    all.insert(all.end(), last.begin(), last.end());
  }

  ConnectionId Attach(const AgentAttached& hello) {
    Do(hello);
    return hello.connection;
  }

  ConnectionId Attach(const std::string& node) { return Attach(Hello(node)); }

  void Join(ConnectionId connection,
            std::uint32_t rank,
            std::uint32_t world_size,
            const std::string& job = "train",
            Duration timeout = Duration(0)) {
    Do(RankJoins{connection, job, Rank(rank), world_size, timeout});
  }

  void Leave(ConnectionId connection,
             std::uint32_t rank,
             std::uint64_t token,
             bool died = false,
             const std::string& job = "train") {
    Do(RankLeaves{
        connection, job, JobToken(token), Rank(rank), died, died ? "its process ended" : "closed"});
  }

  void Pass(Duration duration) {
    now += duration;
    last = membership.Tick(now);
    all.insert(all.end(), last.begin(), last.end());
  }

  // What the last event (or Pass) sent to `connection`.
  template <typename T>
  std::vector<T> Sent(ConnectionId connection) const {
    std::vector<T> found;
    for (const Action& action : last) {
      if (const T* match = std::get_if<T>(&action);
          match != nullptr && match->connection == connection) {
        found.push_back(*match);
      }
    }
    return found;
  }

  template <typename T>
  std::size_t CountOfLast() const {
    std::size_t count = 0;
    for (const Action& action : last) {
      count += std::holds_alternative<T>(action) ? 1 : 0;
    }
    return count;
  }

  Snapshot View() const { return membership.TakeSnapshot(now); }

  Membership membership;
  TimePoint now{std::chrono::hours(1)};
  ConnectionId last_connection = 0;
  std::vector<Action> last;
  std::vector<Action> all;
};

// Nodes a and b, ranks 0 and 1 on a, 2 on b, running with token 1000.
struct RunningJob : Cluster {
  RunningJob() {
    a = Attach("a");
    b = Attach("b");
    Join(a, 0, 3);
    Join(a, 1, 3);
    Join(b, 2, 3);
    epoch = Sent<SendEpoch>(b).at(0).epoch;
  }

  ConnectionId a = 0;
  ConnectionId b = 0;
  EpochInfo epoch;
};

}  // namespace maypole::server
