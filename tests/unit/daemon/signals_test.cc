#include "daemon/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>

namespace maypole::daemon {
namespace {

TEST(StopSignals, ArriveAsReadableDescriptorAndDoNotEndTheProcess) {
  auto signals = StopSignals::Create();
  ASSERT_TRUE(signals.ok()) << signals.status();
  pollfd entry{.fd = signals->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&entry, 1, 0), 0);
  EXPECT_EQ(signals->Take(), std::nullopt);
  raise(SIGTERM);
  EXPECT_EQ(poll(&entry, 1, 0), 1);
  EXPECT_TRUE(signals->IsPending());
  EXPECT_EQ(signals->Wait(), SIGTERM);
  raise(SIGINT);
  EXPECT_EQ(signals->Take(), SIGINT);
  EXPECT_FALSE(signals->IsPending());
  EXPECT_EQ(poll(&entry, 1, 0), 0);
}

TEST(StopSignals, WritingToAClosedPipeIsAnErrorAndNotTheEnd) {
  auto signals = StopSignals::Create();
  ASSERT_TRUE(signals.ok());
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write(ends[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  close(ends[1]);
}

TEST(StopSignals, MemoryBeyondTheFileSizeLimitIsAnErrorAndNotTheEnd) {
  auto signals = StopSignals::Create();
  ASSERT_TRUE(signals.ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1, .rlim_max = before.rlim_max};
  const int memory = memfd_create("signals_test", MFD_CLOEXEC);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const int result = ftruncate(memory, 4096);
  const int reason = errno;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result, -1);
  EXPECT_EQ(reason, EFBIG);
  close(memory);
}

}  // namespace
}  // namespace maypole::daemon
