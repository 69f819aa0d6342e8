// The real client against the real coordinator, over loopback. Every wait has a deadline and ends
// on a condition.
#include "agent/control/coordinator_client.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "common/unique_fd.h"
#include "server/coordinator_service.h"

namespace maypole::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::chrono::seconds kPatience{30};

std::unique_ptr<server::CoordinatorServer> StartCoordinator(std::uint16_t port = 0) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (true) {  // a port that was just given up may need a moment
    auto created = server::CoordinatorServer::Create(
        {.listen = "127.0.0.1", .port = port, .membership = {.version = "1.0"}, .log = {}});
    if (created.ok() || std::chrono::steady_clock::now() > deadline) {
      EXPECT_TRUE(created.ok()) << created.status();
      return *std::move(created);
    }
  }
}

// What the agent's loop does with the client.
class Agent {
 public:
  Agent(std::uint16_t port, const std::string& node, std::uint64_t incarnation = 1)
      : client_(CoordinatorClient::Create({.coordinator = "127.0.0.1:" + std::to_string(port),
                                           .node = node,
                                           .incarnation = incarnation,
                                           .host = "host-" + node,
                                           .data_address = "address-" + node,
                                           .data_endpoint = node + ":7710",
                                           .version = "1.0"})) {}

  // The next event of kind T; others before it are dropped. Null after the patience.
  template <typename T>
  std::optional<T> Next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      while (!events_.empty()) {
        ControlEvent event = std::move(events_.front());
        events_.erase(events_.begin());
        if (T* match = std::get_if<T>(&event)) {
          return std::move(*match);
        }
      }
      pollfd entry{.fd = client_->EventFd(), .events = POLLIN, .revents = 0};
      poll(&entry, 1, 1000);
      client_->Poll(events_);
    }
    return std::nullopt;
  }

  // Attempts in vain may come before one that succeeds.
  bool NextLinkIs(bool up) {
    std::optional<CoordinatorLink> link = Next<CoordinatorLink>();
    while (up && link && !link->up) {
      link = Next<CoordinatorLink>();
    }
    last_link_ = link.value_or(CoordinatorLink{});
    return link && link->up == up;
  }

  void Join(std::uint32_t rank, std::uint32_t world_size) {
    client_->Tell(JoinRank{"train", Rank(rank), world_size});
  }

  CoordinatorClient& client() { return *client_; }

  CoordinatorLink last_link_;

 private:
  std::unique_ptr<CoordinatorClient> client_;
  std::vector<ControlEvent> events_;
};

// The service handles messages in its own time.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) {
      return true;
    }
    std::this_thread::yield();
  }
  return false;
}

TEST(CoordinatorClient, AttachesJoinsAndGetsTheEpoch) {
  auto coordinator = StartCoordinator();
  Agent a(coordinator->port(), "a");
  Agent b(coordinator->port(), "b");
  ASSERT_TRUE(a.NextLinkIs(true));
  ASSERT_TRUE(b.NextLinkIs(true));
  EXPECT_THAT(a.last_link_.text, HasSubstr("127.0.0.1:" + std::to_string(coordinator->port())));
  b.Join(1, 2);
  a.Join(0, 2);
  const auto at_a = a.Next<EpochInfo>();
  const auto at_b = b.Next<EpochInfo>();
  ASSERT_TRUE(at_a && at_b);
  EXPECT_EQ(at_a->token, at_b->token);
  ASSERT_THAT(at_a->members, SizeIs(2));
  EXPECT_EQ(at_a->members[0].node, "a");
  EXPECT_EQ(at_a->members[1].data_address, "address-b");
}

TEST(CoordinatorClient, HandsOverRefusalsAndFailures) {
  auto coordinator = StartCoordinator();
  Agent a(coordinator->port(), "a");
  ASSERT_TRUE(a.NextLinkIs(true));
  a.Join(5, 2);
  const auto refused = a.Next<JoinRefused>();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->rank, Rank(5));
  a.Join(0, 1);
  const auto epoch = a.Next<EpochInfo>();
  ASSERT_TRUE(epoch);
  a.client().Tell(FailureReport{"train", epoch->token, epoch->epoch, "it broke", "ranks=0"});
  const auto failed = a.Next<JobFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->token, epoch->token);
  EXPECT_EQ(failed->text, "it broke");
}

TEST(CoordinatorClient, ClaimsAnEpochThatWasStillQueuedWhenTheStreamBroke) {
  auto coordinator = StartCoordinator();
  const std::uint16_t port = coordinator->port();
  Agent a(port, "a");
  Agent b(port, "b");
  ASSERT_TRUE(a.NextLinkIs(true));
  ASSERT_TRUE(b.NextLinkIs(true));
  a.Join(0, 1);
  pollfd queued{.fd = a.client().EventFd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&queued, 1, std::chrono::milliseconds(kPatience).count()), 1);
  coordinator.reset();
  coordinator = StartCoordinator(port);
  ASSERT_TRUE(b.NextLinkIs(false));
  ASSERT_TRUE(b.NextLinkIs(true)) << "by now a might be attached too";
  const auto epoch = a.Next<EpochInfo>();
  ASSERT_TRUE(epoch);
  a.client().SetEpochs({*epoch});
  ASSERT_TRUE(a.NextLinkIs(false));
  ASSERT_TRUE(a.NextLinkIs(true));
  EXPECT_TRUE(Eventually([&] { return coordinator->TakeSnapshot().counters.jobs_adopted == 1; }));
}

TEST(CoordinatorClient, SecondAgentOfANodeIsRefusedNamingTheFirst) {
  auto coordinator = StartCoordinator();
  Agent first(coordinator->port(), "a");
  ASSERT_TRUE(first.NextLinkIs(true));
  Agent second(coordinator->port(), "a", 2);
  const auto refused = second.Next<AgentRefused>();
  ASSERT_TRUE(refused);
  EXPECT_THAT(refused->text, AllOf(HasSubstr("a:7710"), HasSubstr("host-a")));
}

TEST(CoordinatorClient, NobodyAtTheAddressIsToldWithTheAddressAndTriedAgain) {
  std::uint16_t port = StartCoordinator()->port();  // free again at the end of the line
  Agent a(port, "a");
  ASSERT_TRUE(a.NextLinkIs(false));
  EXPECT_THAT(a.last_link_.text,
              AllOf(HasSubstr("no coordinator at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("trying again")));
  auto coordinator = StartCoordinator(port);
  EXPECT_TRUE(a.NextLinkIs(true));
}

TEST(CoordinatorClient, AStrangerAtTheAddressIsTriedAgainToo) {
  UniqueFd stranger(socket(AF_INET, SOCK_STREAM, 0));  // accepts and never says a word
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(stranger.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(stranger.get(), 8), 0);
  ASSERT_EQ(getsockname(stranger.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  Agent a(ntohs(address.sin_port), "a");
  EXPECT_TRUE(a.NextLinkIs(false));
  EXPECT_THAT(a.last_link_.text, HasSubstr("no coordinator at"));
}

TEST(CoordinatorClient, ReattachesAfterARestartAndItsJobIsAdopted) {
  auto coordinator = StartCoordinator();
  const std::uint16_t port = coordinator->port();
  Agent a(port, "a");
  Agent b(port, "b");
  ASSERT_TRUE(a.NextLinkIs(true) && b.NextLinkIs(true));
  a.Join(0, 2);
  b.Join(1, 2);
  const auto epoch = a.Next<EpochInfo>();
  ASSERT_TRUE(epoch && b.Next<EpochInfo>());
  a.client().SetEpochs({*epoch});
  b.client().SetEpochs({*epoch});

  coordinator.reset();
  ASSERT_TRUE(a.NextLinkIs(false) && b.NextLinkIs(false));
  EXPECT_THAT(a.last_link_.text, HasSubstr("lost the coordinator"));
  coordinator = StartCoordinator(port);
  ASSERT_TRUE(a.NextLinkIs(true) && b.NextLinkIs(true));

  const server::Snapshot view = coordinator->TakeSnapshot();
  ASSERT_THAT(view.jobs, SizeIs(1));
  EXPECT_EQ(view.jobs[0].state, server::JobState::kRunning);
  EXPECT_EQ(view.jobs[0].epoch.token, epoch->token);
  EXPECT_EQ(view.counters.epochs_issued, 0u);
  a.client().Tell(LeaveRank{"train", epoch->token, Rank(0), false, "closed"});
  b.client().Tell(LeaveRank{"train", epoch->token, Rank(1), false, "closed"});
  EXPECT_TRUE(Eventually([&] { return coordinator->TakeSnapshot().jobs.empty(); }));
}

// A join that is said before the loop has seen the link come up is dropped, since the loop says it
// again on that event: said twice, it would be refused as a second rank.
TEST(CoordinatorClient, SpeaksOnlyAfterTheLoopHasSeenTheLinkComeUp) {
  auto coordinator = StartCoordinator();
  Agent a(coordinator->port(), "a");
  ASSERT_TRUE(Eventually([&] { return coordinator->TakeSnapshot().nodes.size() == 1; }));
  pollfd entry{.fd = a.client().EventFd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&entry, 1, 30000), 1);  // the link is up, and the loop has not looked
  a.Join(0, 2);
  ASSERT_TRUE(a.NextLinkIs(true));
  a.Join(0, 2);
  a.Join(1, 2);
  EXPECT_TRUE(a.Next<EpochInfo>());
  EXPECT_EQ(coordinator->TakeSnapshot().counters.joins_refused, 0u);
}

TEST(CoordinatorClient, WhatIsSaidWhileTheLinkIsDownIsDropped) {
  auto coordinator = StartCoordinator();
  const std::uint16_t port = coordinator->port();
  Agent a(port, "a");
  ASSERT_TRUE(a.NextLinkIs(true));
  coordinator.reset();
  ASSERT_TRUE(a.NextLinkIs(false));
  a.Join(0, 1);
  coordinator = StartCoordinator(port);
  ASSERT_TRUE(a.NextLinkIs(true));
  a.Join(7, 1);  // refused; by then an earlier join would have been answered
  ASSERT_TRUE(a.Next<JoinRefused>());
  EXPECT_THAT(coordinator->TakeSnapshot().jobs, IsEmpty());
}

TEST(CoordinatorClient, EndsQuicklyWhetherOrNotSomebodyIsThere) {
  auto coordinator = StartCoordinator();
  const std::uint16_t port = coordinator->port();
  {
    Agent a(port, "a");
    ASSERT_TRUE(a.NextLinkIs(true));
  }
  EXPECT_TRUE(Eventually([&] {
    const server::Snapshot view = coordinator->TakeSnapshot();
    return view.nodes.size() == 1 && view.nodes[0].connection == 0;
  }));
  coordinator.reset();
  const auto start = std::chrono::steady_clock::now();
  { Agent b(port, "b"); }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace maypole::agent
