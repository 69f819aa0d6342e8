// LocalCluster with shell scripts in the place of the daemons: they show their arguments and write
// the ports file.
#include "cli/local_cluster.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/rank_run.h"

namespace maypole::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kGoodDaemon[] = R"(#!/bin/sh
echo "$0" "$@"
while [ "$1" != --ports-file ]; do shift; done
echo '{"grpc":7001,"peer":7002,"http":7003}' > "$2.new"
mv "$2.new" "$2"
exec sleep 1000
)";
constexpr char kDyingDaemon[] = "#!/bin/sh\necho no such interface\nexit 3\n";
constexpr char kSilentDaemon[] = "#!/bin/sh\nkill -TERM $PPID\nexec sleep 1000\n";

class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterTest() {
    options_.daemon_folder = janitor_->folder() + "/bin";
    std::filesystem::create_directory(options_.daemon_folder);
    Install("maypole-coordinator", kGoodDaemon);
    Install("maypole-agent", kGoodDaemon);
  }

  void Install(const std::string& name, const std::string& script) {
    const std::string path = options_.daemon_folder + "/" + name;
    std::ofstream(path) << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  static std::string TextOf(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  absl::StatusOr<std::unique_ptr<LocalCluster>> Start() {
    return LocalCluster::Start(options_, *janitor_, *stop_);
  }

  absl::StatusOr<Janitor> janitor_ = Janitor::Start();
  absl::StatusOr<daemon::StopSignals> stop_ = daemon::StopSignals::Create();
  LocalClusterOptions options_;
};

TEST_F(LocalClusterTest, AgentsAreToldTheCoordinatorThatTheSystemGaveAPort) {
  options_.nodes = 2;
  options_.reduce_threads = 3;
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  ASSERT_EQ((*cluster)->daemons().size(), 3U);
  const std::string agent = TextOf((*cluster)->daemons()[2].log);
  EXPECT_THAT(agent, HasSubstr("--coordinator 127.0.0.1:7001 --node node-1"));
  EXPECT_THAT(agent, HasSubstr("--interface lo --peer-port 0 --http-port 0 --reduce-threads 3"));
}

TEST_F(LocalClusterTest, RanksFillNodeAfterNodeAndFindTheirAgent) {
  options_.nodes = 2;
  options_.ranks_per_node = 3;
  const auto cluster = Start();
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ((*cluster)->world_size(), 6U);
  const std::vector<std::string> environment = (*cluster)->RankEnvironment(4);
  EXPECT_THAT(environment, Contains("RANK=4"));
  EXPECT_THAT(environment, Contains("WORLD_SIZE=6"));
  EXPECT_THAT(environment, Contains("LOCAL_RANK=1"));
  EXPECT_THAT(environment, Contains("LOCAL_WORLD_SIZE=3"));
  EXPECT_THAT(environment, Contains("MAYPOLE_COORDINATOR=127.0.0.1:7001"));
  EXPECT_THAT(environment, Contains("MAYPOLE_SOCKET=" + janitor_->folder() + "/node-1.sock"));
  EXPECT_EQ((*cluster)->NetNamespaceOf(4), -1);
}

TEST_F(LocalClusterTest, ItsEndIsTheEndOfItsDaemons) {
  std::vector<pid_t> pids;
  {
    const auto cluster = Start();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    for (const Daemon& daemon : (*cluster)->daemons()) {
      pids.push_back(daemon.process.pid());
      EXPECT_EQ(kill(pids.back(), 0), 0);
    }
  }
  for (const pid_t pid : pids) {
    EXPECT_NE(kill(pid, 0), 0);
  }
}

TEST_F(LocalClusterTest, AnAgentThatEndsAtStartIsReportedWithWhatItSaid) {
  Install("maypole-agent", kDyingDaemon);
  const absl::Status status = Start().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("agent 0 ended at start with exit code 3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such interface"));
}

TEST_F(LocalClusterTest, AMissingBinaryIsReportedWithItsPath) {
  std::filesystem::remove(options_.daemon_folder + "/maypole-coordinator");
  EXPECT_THAT(std::string(Start().status().message()),
              HasSubstr(options_.daemon_folder + "/maypole-coordinator"));
}

TEST_F(LocalClusterTest, AStopSignalEndsTheWaitForADaemonThatDoesNotBecomeReady) {
  Install("maypole-agent", kSilentDaemon);
  const absl::Status status = Start().status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("told to stop"));
  EXPECT_EQ(*CodeOrError(*stop_, status), 128 + SIGTERM);
  EXPECT_EQ(CodeOrError(*stop_, status).status(), status);
}

TEST_F(LocalClusterTest, DaemonsTakeOurVariablesButNotOurFile) {
  setenv("MAYPOLE_CONFIG", "/file/of/the/tool", 1);
  setenv("MAYPOLE_LOG_LEVEL", "debug", 1);
  Install("maypole-coordinator",
          std::string("#!/bin/sh\nenv > " + janitor_->folder() + "/seen\n") + kGoodDaemon);
  const auto cluster = Start();
  unsetenv("MAYPOLE_CONFIG");
  unsetenv("MAYPOLE_LOG_LEVEL");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const std::string seen = TextOf(janitor_->folder() + "/seen");
  EXPECT_THAT(seen, HasSubstr("MAYPOLE_LOG_LEVEL=debug"));
  EXPECT_THAT(seen, Not(HasSubstr("MAYPOLE_CONFIG")));
}

TEST_F(LocalClusterTest, ShapedLinksNeedNamespaces) {
  options_.bits_per_second = 1e9;
  EXPECT_THAT(std::string(Start().status().message()), HasSubstr("--netns"));
}

}  // namespace
}  // namespace maypole::cli
