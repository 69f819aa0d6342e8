// `maypole local` with real daemons: however it ends, nothing stays behind (IntegrationTest looks).
#include <signal.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/process_facts.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::HasSubstr;

class LocalTest : public IntegrationTest {
 protected:
  static constexpr char kRankMark[] = "MAYPOLE_TEST_RANK=here";

  static std::vector<std::string> Command(const std::string& script) {
    return {PathOfBinary("maypole"), "local", "--nodes", "2", "--", "sh", "-c", script};
  }
};

TEST_F(LocalTest, ExitsWithTheCodeOfTheRankThatFails) {
  const EndedProcess ended = RunToEnd(Command("echo I am $RANK; exit $((RANK * 7))"));
  EXPECT_EQ(ended.code, 7) << ended.output;
  EXPECT_THAT(ended.output, HasSubstr("[1] I am 1"));
}

TEST_F(LocalTest, NothingOutlivesItWhenItIsKilled) {
  cli::ChildOptions options;
  options.argv = Command("exec env MAYPOLE_TEST_RANK=here sleep 1000");
  auto local = cli::ChildProcess::Start(options);
  ASSERT_TRUE(local.ok()) << local.status();
  ASSERT_TRUE(Eventually([] { return ProcessesWith(kRankMark).size() == 2; }));
  local->Signal(SIGKILL);
  EXPECT_TRUE(local->WaitFor(5));
  EXPECT_TRUE(Eventually([] { return ProcessesWith(kRankMark).empty(); }));
  EXPECT_TRUE(Eventually([&] { return std::filesystem::is_empty(folder()); }));
}

}  // namespace
}  // namespace maypole::test
