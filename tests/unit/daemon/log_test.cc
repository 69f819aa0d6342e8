#include "daemon/log.h"

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

}  // namespace
}  // namespace maypole::daemon
