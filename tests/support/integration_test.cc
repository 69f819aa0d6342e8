#include "tests/support/integration_test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "tests/support/process_facts.h"

namespace maypole::test {
namespace {

namespace fs = std::filesystem;

constexpr char kMark[] = "MAYPOLE_TEST_MARK";
constexpr char kTimeIsUp[] = "the test's time is up\n";

void OnAlarm(int /*signal*/) {
  (void)!write(STDERR_FILENO, kTimeIsUp, sizeof kTimeIsUp - 1);
  abort();
}

// Names in /dev/shm that UCX or we might have put there.
std::set<std::string> SharedMemory() {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("maypole") != std::string::npos || name.find("ucx") != std::string::npos) {
      names.insert(name);
    }
  }
  return names;
}

}  // namespace

IntegrationTest::IntegrationTest() : shared_memory_(SharedMemory()) {
  signal(SIGALRM, OnAlarm);
  alarm(kTimeBoxSeconds);
  char folder[] = "/tmp/maypole-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    throw std::runtime_error(std::string("mkdtemp: ") + strerror(errno));
  }
  folder_ = folder;
  setenv("TMPDIR", folder, 1);
  const std::string value = std::to_string(getpid()) + folder;
  setenv(kMark, value.c_str(), 1);
  mark_ = std::string(kMark) + "=" + value;
}

IntegrationTest::~IntegrationTest() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  alarm(0);
}

void IntegrationTest::TearDown() {
  // What dies with its parent needs a moment to be seen dead.
  std::vector<pid_t> left;
  EXPECT_TRUE(Eventually([&] {
    left = ProcessesWith(mark_);
    return left.empty();
  })) << "left are the processes "
      << ::testing::PrintToString(left);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left that nobody has waited for";
  EXPECT_EQ(SharedMemory(), shared_memory_);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
    ADD_FAILURE() << entry.path() << " is left";
  }
}

}  // namespace maypole::test
