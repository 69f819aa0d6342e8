#include "daemon/log.h"

#include <unistd.h>

#include <gmock/gmock.h>

namespace maypole::daemon {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Log, IsOneLineWithTimeLevelAndName) {
  InitLog(LogLevel::kInfo, "maypole-x");
  testing::internal::CaptureStderr();
  LogWarning("node b is \"late\"");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              MatchesRegex("20[0-9T:.+-]+ warning maypole-x: node b is \"late\"\n"));
}

TEST(Log, DropsWhatIsBelowItsLevel) {
  InitLog(LogLevelOf("warning"), "maypole-x");
  testing::internal::CaptureStderr();
  LogInfo("one");
  LogWarning("two");
  LogError("three");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::Not(HasSubstr("one")));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("two"), HasSubstr("three")));
}

// Texts of clients and other machines must not forge a line of their own, nor be taken for a
// format.
TEST(Log, KeepsTextsOfOthersInOneLine) {
  InitLog(LogLevel::kInfo, "maypole-x");
  testing::internal::CaptureStderr();
  LogInfo("job a\nerror: forged \x1b[31m {} %s");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("job a?error: forged ?[31m {} %s\n"));
}

// A log collector that stands still must not stop the daemon.
TEST(Log, DropsAndCountsWhatNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  InitLog(LogLevel::kInfo, "maypole-x");
  for (int i = 0; i < 100'000; ++i) {
    LogInfo("line " + std::to_string(i) + " " + std::string(i == 0 ? 10'000 : 10, '.'));
  }
  std::string text(1 << 20, ' ');
  text.resize(static_cast<std::size_t>(read(ends[0], text.data(), text.size())));
  EXPECT_THAT(text, HasSubstr("line 100 ..."));
  EXPECT_LT(text.find('\n'), 4096U) << "a line is cut";
  LogInfo("again");
  dup2(before, STDERR_FILENO);
  std::string after(1 << 20, ' ');
  after.resize(static_cast<std::size_t>(read(ends[0], after.data(), after.size())));
  EXPECT_THAT(after,
              MatchesRegex(".* warning maypole-x: [0-9]+ lines were dropped: nobody read them\n"
                           ".* info maypole-x: again\n"));
  for (const int fd : {ends[0], ends[1], before}) {
    close(fd);
  }
}

}  // namespace
}  // namespace maypole::daemon
