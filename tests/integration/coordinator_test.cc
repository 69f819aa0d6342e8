// The coordinator is on no gradient's path: it dies, comes back without memory and learns from the
// agents what runs, while not one all-reduce fails.
#include <signal.h>

#include <atomic>
#include <future>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::Each;

// All-reduces in the background, until it is told to stop.
class Traffic {
 public:
  explicit Traffic(std::vector<Session>& sessions)
      : sessions_(sessions),
        tensors_(Tensors(sessions, 1000)),
        thread_(std::async(std::launch::async, [this] { return Run(); })) {}

  ~Traffic() { stop_ = true; }

  int ops() const { return ops_; }

  bool Progresses() const {
    const int before = ops_;
    return Eventually([&] { return ops_ > before + 20; });
  }

  // The errors of all ranks, none if all went well.
  std::vector<std::string> Stop() {
    stop_ = true;
    return thread_.get();
  }

 private:
  std::vector<std::string> Run() {
    std::vector<std::string> errors;
    while (!stop_ && errors.empty()) {
      for (const std::string& text : AllReduceAll(sessions_, tensors_, {.name = "w"})) {
        if (text != "ok") {
          errors.push_back(text);
        }
      }
      ++ops_;
    }
    return errors;
  }

  std::vector<Session>& sessions_;
  std::vector<std::span<float>> tensors_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> ops_ = 0;
  std::future<std::vector<std::string>> thread_;
};

class CoordinatorTest : public IntegrationTest {
 protected:
  static void KillCoordinator(TestCluster& cluster) {
    cluster.coordinator().Signal(SIGKILL);
    ASSERT_EQ(cluster.coordinator().AwaitEnd(), 128 + SIGKILL);
  }

  static bool AllAreAttached(const TestCluster& cluster) {
    const auto status = nlohmann::json::parse(cluster.StatusJson(), nullptr, false);
    std::size_t attached = 0;
    for (const auto& node : status.value("nodes", nlohmann::json::array())) {
      attached += node.value("attached", false) ? 1 : 0;
    }
    return attached == cluster.nodes();
  }

  // "running", "failed", or "" for a job that the coordinator does not know.
  static std::string StateOf(const TestCluster& cluster, const std::string& name) {
    const auto status = nlohmann::json::parse(cluster.StatusJson(), nullptr, false);
    for (const auto& job : status.value("jobs", nlohmann::json::array())) {
      if (job.value("job", "") == name) {
        return job.value("state", "");
      }
    }
    return "";
  }
};

TEST_F(CoordinatorTest, AllReducesGoOnWithoutIt) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  Traffic traffic(sessions);
  ASSERT_TRUE(traffic.Progresses());
  KillCoordinator(cluster);
  EXPECT_TRUE(traffic.Progresses());
  EXPECT_TRUE(traffic.Progresses());
  EXPECT_THAT(traffic.Stop(), ::testing::IsEmpty());
}

TEST_F(CoordinatorTest, AfterARestartItKnowsTheJobThatRunsAndFormsOthers) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  Traffic traffic(sessions);
  for (int round = 0; round < 3; ++round) {
    KillCoordinator(cluster);
    EXPECT_TRUE(traffic.Progresses());
    cluster.StartCoordinator();
    ASSERT_TRUE(Eventually([&] { return AllAreAttached(cluster); })) << cluster.StatusJson();
    EXPECT_EQ(StateOf(cluster, "job"), "running");
    std::vector<Session> others = cluster.ConnectAll(1, "second");
    EXPECT_THAT(AllReduceAll(others, Tensors(others, 100)), Each("ok"));
    EXPECT_TRUE(traffic.Progresses());
  }
  EXPECT_THAT(traffic.Stop(), ::testing::IsEmpty());
  sessions.clear();
  EXPECT_TRUE(Eventually([&] { return StateOf(cluster, "job").empty(); })) << cluster.StatusJson();
  sessions = cluster.ConnectAll(2);
  EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100)), Each("ok"));
}

TEST_F(CoordinatorTest, AJobThatEndedWhileItWasDownIsNotKnownAfterwards) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(1);
  KillCoordinator(cluster);
  sessions.clear();
  cluster.StartCoordinator();
  ASSERT_TRUE(Eventually([&] { return AllAreAttached(cluster); }));
  EXPECT_TRUE(Eventually([&] { return StateOf(cluster, "job").empty(); })) << cluster.StatusJson();
  sessions = cluster.ConnectAll(1);
  EXPECT_THAT(AllReduceAll(sessions, Tensors(sessions, 100)), Each("ok"));
}

TEST_F(CoordinatorTest, StatusTellsWhatWaitsForWhom) {
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  std::vector<Op> ops;
  for (const std::size_t rank : {0, 1, 3}) {
    ops.push_back(sessions[rank].Barrier("step"));
  }
  const nlohmann::json::json_pointer first("/nodes/0/report/waiting/0");
  EXPECT_TRUE(Eventually([&] {
    const auto status = nlohmann::json::parse(cluster.StatusJson(), nullptr, false);
    return status.contains(first) && status[first].value("op", "") == "step" &&
           status[first].value("missing_ranks", std::vector<int>()) == std::vector{2};
  })) << cluster.StatusJson();
  sessions[2].Barrier("step").Wait();
  sessions.clear();
  EXPECT_TRUE(Eventually([&] {
    const auto status = nlohmann::json::parse(cluster.StatusJson(), nullptr, false);
    return status.contains(nlohmann::json::json_pointer("/nodes/0")) && !status.contains(first);
  })) << cluster.StatusJson();
}

}  // namespace
}  // namespace maypole::test
