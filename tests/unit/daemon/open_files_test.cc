#include "daemon/open_files.h"

#include <sys/resource.h>

#include <gtest/gtest.h>

namespace maypole::daemon {
namespace {

TEST(OpenFiles, TheLimitBecomesWhatIsPermitted) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low{.rlim_cur = 64, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  RaiseOpenFilesLimit();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max);
}

}  // namespace
}  // namespace maypole::daemon
