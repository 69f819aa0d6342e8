#include "daemon/process_limits.h"

#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::daemon {
namespace {

using ::testing::HasSubstr;

TEST(ProcessLimits, AllOpenFilesThatArePermittedAreTaken) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{.rlim_cur = 64, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  TakeWhatIsPermitted().IgnoreError();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

TEST(ProcessLimits, TooLittleAddressSpaceIsAnErrorWithTheRemedy) {
  EXPECT_TRUE(CheckAddressSpace(RLIM_INFINITY).ok());
  EXPECT_THAT(std::string(CheckAddressSpace(600 << 20).message()),
              HasSubstr("600 MiB (ulimit -v)"));
}

}  // namespace
}  // namespace maypole::daemon
