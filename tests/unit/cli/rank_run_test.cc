#include "cli/rank_run.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr double kLongSeconds = 600;

class RankRunTest : public ::testing::Test {
 protected:
  // One rank per script; what they print lands in out_ and err_.
  int Run(const std::vector<std::string>& scripts, double grace_seconds = kLongSeconds) {
    std::vector<ChildOptions> ranks;
    for (const std::string& script : scripts) {
      ChildOptions child;
      child.argv = {"sh", "-c", script};
      ranks.push_back(child);
    }
    const auto sink = [this](std::uint32_t rank, Stream stream, std::string_view line) {
      (stream == Stream::kOut ? out_ : err_)[rank].emplace_back(line);
    };
    return RunRanks(ranks, {grace_seconds, kill_seconds_}, {*janitor_, *stop_, {}, {}}, sink)
        .value();
  }

  absl::StatusOr<Janitor> janitor_ = Janitor::Start();
  absl::StatusOr<daemon::StopSignals> stop_ = daemon::StopSignals::Create();
  double kill_seconds_ = 5;
  std::map<std::uint32_t, std::vector<std::string>> out_;
  std::map<std::uint32_t, std::vector<std::string>> err_;
};

TEST_F(RankRunTest, ForwardsLinesOfEveryRankAndStreamAndTheUnfinishedLast) {
  EXPECT_EQ(Run({"echo one; echo two; printf rest", "echo oops >&2"}), 0);
  EXPECT_THAT(out_[0], ElementsAre("one", "two", "rest"));
  EXPECT_THAT(err_[1], ElementsAre("oops"));
  EXPECT_TRUE(err_[0].empty());
}

TEST_F(RankRunTest, LosesNothingOfALongOutput) {
  EXPECT_EQ(Run({"i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done"}), 0);
  ASSERT_EQ(out_[0].size(), 5000U);
  EXPECT_EQ(out_[0].back(), "line 4999");
}

TEST_F(RankRunTest, ReturnsTheCodeOfTheRankThatFailedFirst) {
  // Rank 1 fails only once it has been told to end, and with another code.
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"exit 3", "trap 'exit 5' TERM; while :; do sleep 0.05; done"}, 0.1), 3);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              EndsWith("first failure: rank 0, exit code 3\n"));
}

TEST_F(RankRunTest, ARankThatIgnoresTheRequestIsKilled) {
  const std::string ready = janitor_->folder() + "/ready";
  kill_seconds_ = 0.1;
  EXPECT_EQ(Run({"while [ ! -e " + ready + " ]; do sleep 0.01; done; exit 3",
                 "trap 'echo asked' TERM; touch " + ready + "; while :; do sleep 0.01; done"},
                0),
            3);
  EXPECT_THAT(out_[1], ElementsAre("asked"));
}

TEST_F(RankRunTest, OthersMayFinishWithinTheGraceAfterAFailure) {
  EXPECT_EQ(Run({"exit 3", "sleep 0.2; echo done"}), 3);
  EXPECT_THAT(out_[1], ElementsAre("done"));
}

TEST_F(RankRunTest, AStopSignalEndsAllRanksAtOnceAndIsTheResult) {
  const std::string parent = std::to_string(getpid());
  EXPECT_EQ(Run({"kill -TERM " + parent + "; exec sleep 1000", "exec sleep 1000"}), 128 + SIGTERM);
}

TEST_F(RankRunTest, ADaemonThatDiesIsAFailureOnlyIfNoRankFails) {
  std::vector<Daemon> daemons;
  ChildOptions dying;
  dying.argv = {"sh", "-c", "exit 9"};
  daemons.push_back({"agent 0", "/nonexistent", ChildProcess::Start(dying).value()});
  ChildOptions rank;
  rank.argv = {"sh", "-c", "sleep 0.2"};
  const LineSink sink = [](std::uint32_t, Stream, std::string_view) {};
  EXPECT_EQ(RunRanks({rank}, {}, {*janitor_, *stop_, daemons, {}}, sink).value(), 1);
  rank.argv = {"sh", "-c", "exit 4"};
  EXPECT_EQ(RunRanks({rank}, {}, {*janitor_, *stop_, daemons, {}}, sink).value(), 4);
}

TEST_F(RankRunTest, WhatADaemonWarnsOfIsShownAndOnceWhereToLook) {
  const std::string log = janitor_->folder() + "/agent.log";
  const auto warn = [&](const std::string& text) {
    return "echo TIME warning maypole-agent: " + text + " >>" + log + "; ";
  };
  std::ofstream(log).flush();
  ChildOptions child;
  child.argv = {"sh", "-c", warn("late") + "exec sleep 1000"};
  std::vector<Daemon> daemons;
  daemons.push_back({"agent 0", log, ChildProcess::Start(child).value()});
  child.argv = {"sh", "-c", "while [ ! -s " + log + " ]; do sleep 0.01; done; " + warn("later")};
  const LineSink sink = [](std::uint32_t, Stream, std::string_view) {};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunRanks({child}, {.look_seconds = 0}, {*janitor_, *stop_, daemons, "look there"}, sink)
                .value(),
            0);
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, StartsWith("[agent 0] warning: late\n"));
  EXPECT_THAT(shown, HasSubstr("[agent 0] warning: later\n"));
  const std::size_t where = shown.find("maypole: look there\n");
  EXPECT_NE(where, std::string::npos) << shown;
  EXPECT_EQ(where, shown.rfind("maypole: look there\n")) << shown;
}

TEST_F(RankRunTest, WhereToLookIsNotSaidIfARankFailsSoon) {
  std::vector<Daemon> daemons;
  ChildOptions child;
  child.argv = {"sleep", "1000"};
  const std::string log = janitor_->folder() + "/agent.log";
  std::ofstream(log) << "TIME warning maypole-agent: rank 0 was lost\n";
  daemons.push_back({"agent 0", log, ChildProcess::Start(child).value()});
  child.argv = {"sh", "-c", "exit 3"};
  ChildOptions other;  // lives on beyond the time to look
  other.argv = {"sleep", "0.6"};
  const LineSink sink = [](std::uint32_t, Stream, std::string_view) {};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(
      RunRanks({child, other}, {.look_seconds = 0.3}, {*janitor_, *stop_, daemons, "look"}, sink)
          .value(),
      3);
  const std::string shown = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, HasSubstr("[agent 0] warning: rank 0 was lost\n"));
  EXPECT_THAT(shown, Not(HasSubstr("look")));
}

// Runs `body` as the first process of a new namespace, in which it may choose the number of the
// next process; the code that it returns, or -1 without the right to that.
int CodeInNewPidNamespace(const std::function<int()>& body) {
  const auto code_of = [](pid_t pid) {
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? ExitStatus(status).code() : -1;
  };
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWPID) != 0) {
      _exit(255);
    }
    const pid_t inner = fork();
    if (inner == 0) {
      _exit(body());
    }
    _exit(code_of(inner));
  }
  const int code = code_of(outer);
  return code == 255 ? -1 : code;
}

TEST(RankRun, ForgetsTheRanksOfAFailedStartAsTheirNumbersMayBeAnybodys) {
  const int code = CodeInNewPidNamespace([] {
    auto stop = daemon::StopSignals::Create();
    auto janitor = std::make_unique<Janitor>(Janitor::Start().value());
    ChildOptions good;
    good.argv = {"sleep", "1000"};
    ChildOptions bad;
    bad.argv = {"/nonexistent/program"};
    const LineSink sink = [](std::uint32_t, Stream, std::string_view) {};
    const std::string last_pid = "/proc/sys/kernel/ns_last_pid";
    pid_t before = 0;
    std::ifstream(last_pid) >> before;
    if (RunRanks({good, bad}, {}, {*janitor, *stop, {}, {}}, sink).ok()) {
      return 1;
    }
    std::ofstream(last_pid) << before;
    const absl::StatusOr<ChildProcess> other = ChildProcess::Start(good);
    if (!other.ok() || other->pid() != before + 1) {
      return 2;
    }
    janitor.reset();  // kills whom it still watches
    return waitpid(other->pid(), nullptr, WNOHANG) == 0 ? 0 : 3;
  });
  if (code == -1) {
    GTEST_SKIP() << "a new namespace of processes needs root";
  }
  EXPECT_EQ(code, 0);
}

TEST_F(RankRunTest, AProgramThatIsNotThereIsAnErrorAndEndsTheRanksThatRun) {
  ChildOptions good;
  good.argv = {"sleep", "1000"};
  ChildOptions bad;
  bad.argv = {"/nonexistent/program"};
  const LineSink sink = [](std::uint32_t, Stream, std::string_view) {};
  EXPECT_FALSE(RunRanks({good, bad}, {}, {*janitor_, *stop_, {}, {}}, sink).ok());
}

}  // namespace
}  // namespace maypole::cli
