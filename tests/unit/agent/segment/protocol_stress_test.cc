// Both sides of the slot protocol on several threads over one piece of memory, where
// ThreadSanitizer sees every access. A wake-up that gets lost shows as a sleep that only its long
// timeout ends.
#include <semaphore.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "agent/segment/slot_ring.h"
#include "client/src/slot_channel.h"

namespace maypole::agent {
namespace {

using client::internal::SlotChannel;
using Clock = std::chrono::steady_clock;

constexpr int kClients = 3;
constexpr int kOpsPerClient = 4000;
// Far above any scheduling delay: a sleep that lasts this long was not woken.
constexpr auto kLost = std::chrono::seconds(20);

class Stress {
 public:
  Stress() { ::sem_init(&doorbell_, 0, 0); }

  ~Stress() { ::sem_destroy(&doorbell_); }

  void Agent() {
    int left = kClients * kOpsPerClient;
    while (left > 0) {
      const auto entry = ring_.Take();
      if (!entry) {
        SleepUntilRung();
      } else if (!entry->is_release) {
        SharedResult result{1, entry->request.elements * 8, {}};
        ring_.Complete(entry->slot, {}, result);
        --left;
      }
    }
  }

  void Client(std::uint64_t id) {
    for (int i = 0; i < kOpsPerClient; ++i) {
      SlotRequest request;
      request.elements = id * kOpsPerClient + static_cast<std::uint64_t>(i);
      request.flags = kSlotSharedResult;
      const auto slot = channel_.Submit(request);
      ASSERT_TRUE(slot);
      while (!channel_.IsDone(*slot)) {
        const auto start = Clock::now();
        channel_.Sleep(*slot, kLost);
        ASSERT_LT(Clock::now() - start, kLost) << "a client was not woken";
      }
      ASSERT_EQ(channel_.outcome(*slot).result_offset, request.elements * 8);
      channel_.Give(*slot, SlotChannel::Release::kSlotAndResult);
    }
  }

  const std::string& violation() const { return ring_.violation(); }

 private:
  void SleepUntilRung() {
    ring_.Arm();
    if (!ring_.HasEntries()) {
      timespec limit{};
      ::clock_gettime(CLOCK_REALTIME, &limit);
      limit.tv_sec += std::chrono::seconds(kLost).count();
      int result = 0;
      do {
        result = ::sem_timedwait(&doorbell_, &limit);
      } while (result != 0 && errno == EINTR);
      ASSERT_EQ(result, 0) << "the agent was not rung";
    }
    ring_.Disarm();
  }

  std::unique_ptr<ControlSegment> control_ = std::make_unique<ControlSegment>();
  SlotRing ring_{*control_};
  sem_t doorbell_;
  SlotChannel channel_{*control_, [this] { ::sem_post(&doorbell_); }};
};

TEST(SlotProtocol, LosesNoWakeUpAndNoOp) {
  Stress stress;
  std::thread agent([&] { stress.Agent(); });
  std::vector<std::thread> clients;
  for (std::uint64_t id = 0; id < kClients; ++id) {
    clients.emplace_back([&stress, id] { stress.Client(id); });
  }
  for (auto& client : clients) {
    client.join();
  }
  agent.join();
  EXPECT_EQ(stress.violation(), "");
}

}  // namespace
}  // namespace maypole::agent
