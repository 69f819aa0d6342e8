#include "cli/daemon_logs.h"

#include <poll.h>

#include <algorithm>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/janitor.h"

namespace maypole::cli {
namespace {

using Verdict = NewsLimit::Verdict;
using ::testing::EndsWith;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

constexpr TimePoint kStart{std::chrono::hours(5)};

TEST(NewsOf, LeavesInfoLinesAndTheTimeOut) {
  EXPECT_EQ(NewsOf("2026-12-01T18:42:42.470+00:00 warning maypole-agent: no route to b: x"),
            "warning: no route to b: x");
  EXPECT_EQ(NewsOf("2026-12-01T18:42:42.470+00:00 error maypole-coordinator: bad"), "error: bad");
  EXPECT_EQ(NewsOf("2026-12-01T18:42:42.470+00:00 info maypole-agent: an error maypole-x: y"), "");
}

TEST(NewsOf, KeepsLinesOfOthersAsTheyAre) {
  for (const std::string line :
       {"[1764.5] [vm:12 :0] tcp_ep.c:9  UCX  ERROR no info", "abort", ""}) {
    EXPECT_EQ(NewsOf(line), line);
  }
}

TEST(NewsLimit, ShowsEveryLineOnceInAWhile) {
  NewsLimit limit;
  EXPECT_EQ(limit.Judge("a", kStart), Verdict::kShow);
  EXPECT_EQ(limit.Judge("a", kStart), Verdict::kHide);
  EXPECT_EQ(limit.Judge("b", kStart), Verdict::kShow);
  EXPECT_EQ(limit.Judge("a", kStart + NewsLimit::kWhile), Verdict::kShow);
}

TEST(NewsLimit, ShowsSoManyInAWhileAndMarksTheLast) {
  NewsLimit limit;
  for (TimePoint now : {kStart, kStart + NewsLimit::kWhile}) {
    for (std::size_t line = 1; line < NewsLimit::kShownMax; ++line) {
      EXPECT_EQ(limit.Judge(std::to_string(line), now), Verdict::kShow);
    }
    EXPECT_EQ(limit.Judge("last", now), Verdict::kShowAsLast);
    EXPECT_EQ(limit.Judge("one more", now), Verdict::kHide);
    EXPECT_EQ(limit.Judge("1", now), Verdict::kHide);
  }
}

class DaemonLogsTest : public ::testing::Test {
 protected:
  DaemonLogsTest() {
    ChildOptions sleeper;
    sleeper.argv = {"sleep", "1000"};
    for (const std::string name : {"coordinator", "agent 0"}) {
      const std::string log = janitor_->folder() + "/" + name + ".log";
      std::ofstream(log).flush();
      daemons_.push_back({name, log, ChildProcess::Start(sleeper).value()});
    }
  }

  void Write(std::size_t daemon, const std::string& text) {
    std::ofstream(daemons_[daemon].log, std::ios::app) << text;
  }

  static std::string Warning(const std::string& text) { return "TIME warning maypole-x: " + text; }

  // Of one Forward.
  static std::string Shown(DaemonLogs& logs) {
    CaptureStderr();
    logs.Forward(kStart);
    return GetCapturedStderr();
  }

  absl::StatusOr<Janitor> janitor_ = Janitor::Start();
  std::vector<Daemon> daemons_;
};

TEST_F(DaemonLogsTest, ShowsWhatIsNewUnderTheNameOfItsDaemon) {
  Write(0, Warning("from before") + "\n");
  DaemonLogs logs(daemons_);
  EXPECT_EQ(Shown(logs), "[coordinator] warning: from before\n");
  EXPECT_EQ(Shown(logs), "");
  Write(1, "TIME info maypole-x: well\n" + Warning("odd"));
  EXPECT_EQ(Shown(logs), "") << "half a line";
  Write(1, "er\n");
  EXPECT_EQ(Shown(logs), "[agent 0] warning: odder\n");
}

TEST_F(DaemonLogsTest, IsReadableWhenALogHasGrown) {
  DaemonLogs logs(daemons_);
  pollfd grown{logs.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&grown, 1, 0), 0);
  Write(1, Warning("x") + "\n");
  EXPECT_EQ(poll(&grown, 1, 0), 1);
  EXPECT_NE(Shown(logs), "");
  EXPECT_EQ(poll(&grown, 1, 0), 0);
}

TEST_F(DaemonLogsTest, AFloodIsCutAndSaidSo) {
  DaemonLogs logs(daemons_);
  for (int line = 0; line < 1000; ++line) {
    Write(line % 2, Warning(std::to_string(line)) + "\n");
  }
  const std::string shown = Shown(logs);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), NewsLimit::kShownMax + 1);
  EXPECT_THAT(shown, EndsWith("within 10 s is in their logs only\n"));
}

TEST_F(DaemonLogsTest, ALogThatIsNotThereIsLeftOut) {
  daemons_[0].log = "/nonexistent";
  Write(1, Warning("x") + "\n");
  DaemonLogs logs(daemons_);
  EXPECT_EQ(Shown(logs), "[agent 0] warning: x\n");
}

}  // namespace
}  // namespace maypole::cli
