// Daemons that cannot start end with exit code and a sentence that names option, value and remedy;
// those that run already go on.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/process_facts.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

class StartingTest : public IntegrationTest {
 protected:
  // The agent command with free ports, and more: later flags do not repeat earlier ones.
  Texts Agent(const Texts& more) const {
    Texts command = {PathOfBinary("maypole-agent"), "--socket", folder() + "/a.sock"};
    const auto add = [&](const std::string& flag, const std::string& value) {
      if (std::find(more.begin(), more.end(), flag) == more.end()) {
        command.insert(command.end(), {flag, value});
      }
    };
    add("--interface", "lo");
    add("--peer-port", "0");
    add("--http-port", "0");
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  static Texts Coordinator(const std::string& port, const std::string& http_port) {
    return {PathOfBinary("maypole-coordinator"),
            "--listen",
            "127.0.0.1",
            "--port",
            port,
            "--http-port",
            http_port};
  }

  static void ExpectServes(const TestCluster& cluster) {
    Session session = cluster.Connect(0, 0, 1, "alone");
    EXPECT_EQ(TextOfError([&] { session.Barrier().Wait(); }), "ok");
  }
};

TEST_F(StartingTest, ASecondAgentOnTheSameSocketIsRefusedAndTheFirstServesOn) {
  TestCluster cluster({.nodes = 1});
  Texts command = cluster.AgentCommand(0);
  const EndedProcess second = RunToEnd(command);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("an agent already runs at"), HasSubstr(cluster.SocketOf(0))));
  ExpectServes(cluster);
}

TEST_F(StartingTest, ASecondAgentOfTheSameNodeIsRefusedByTheCoordinatorAndTheFirstServesOn) {
  TestCluster cluster({.nodes = 1});
  Texts command = cluster.AgentCommand(0);
  *std::find(command.begin(), command.end(), cluster.SocketOf(0)) = folder() + "/second.sock";
  const EndedProcess second = RunToEnd(command);
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.output,
              AllOf(HasSubstr("node \"node-0\" is already attached"), HasSubstr("--node")));
  EXPECT_FALSE(std::filesystem::exists(folder() + "/second.sock"));
  ExpectServes(cluster);
}

TEST_F(StartingTest, TheSocketOfAnAgentThatWasKilledIsTakenOver) {
  TestCluster cluster({.nodes = 1});
  cluster.agent(0).Signal(SIGKILL);
  ASSERT_EQ(cluster.agent(0).AwaitEnd(), 128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(cluster.SocketOf(0)));
  cluster.StartAgent(0);
  ExpectServes(cluster);
}

TEST_F(StartingTest, AnAgentRemovesItsSocketWhenItIsStopped) {
  TestCluster cluster({.nodes = 1});
  cluster.agent(0).Signal(SIGTERM);
  EXPECT_EQ(cluster.agent(0).AwaitEnd(), 0);
  EXPECT_FALSE(std::filesystem::exists(cluster.SocketOf(0)));
}

TEST_F(StartingTest, PortsInUseAreNamedWithTheirOption) {
  ReservedPort port;
  port.Listen();
  const std::string number = std::to_string(port.number());
  const std::vector<std::pair<Texts, std::string>> cases = {
      {Agent({"--http-listen", "127.0.0.1", "--http-port", number}), "http-port"},
      {Agent({"--peer-port", number}), "peer-port"},
      {Coordinator("0", number), "http-port"},
      {Coordinator(number, "0"), "port"},
  };
  for (const auto& [command, option] : cases) {
    const EndedProcess ended = RunToEnd(command);
    EXPECT_EQ(ended.code, 1) << option;
    EXPECT_THAT(ended.output, AllOf(HasSubstr(option), HasSubstr(number)));
  }
  EXPECT_FALSE(std::filesystem::exists(folder() + "/a.sock"));
}

TEST_F(StartingTest, BadFlagsAreRefusedWithNameAndValue) {
  const std::vector<std::pair<Texts, Texts>> cases = {
      {Agent({"--reduce-threads", "0"}), {"reduce-threads", "0", "1"}},
      {Agent({"--reduce-threads", "257"}), {"reduce-threads", "257", "256"}},
      {Agent({"--peer-lease", "1ms"}), {"peer-lease", "1ms", "100"}},
      {Agent({"--peer-lease", "soon"}), {"peer-lease", "soon"}},
      {Agent({"--http-port", "70000"}), {"http-port", "70000", "65535"}},
      {Agent({"--peer-port", "-1"}), {"peer-port", "-1"}},
      {Agent({"--coordinator", "nowhere"}), {"coordinator", "nowhere"}},
      {Agent({"--slice-bytes", "1"}), {"slice-bytes", "1", "4KiB"}},
      {Agent({"--window-bytes", "0"}), {"window-bytes", "\"0\"", "least allowed, 1"}},
      {Agent({"--segment-bytes-max", "much"}), {"segment-bytes-max", "much"}},
      {Agent({"--segment-bytes-max", "0"}), {"segment-bytes-max", "\"0\"", "4MiB"}},
      {Agent({"--result-bytes-max", "0"}), {"result-bytes-max", "\"0\"", "4KiB"}},
      {Agent({"--log-level", "loud"}), {"log-level", "loud"}},
      {Agent({"--no-such-flag", "1"}), {"--no-such-flag"}},
      {Agent({"--node", ""}), {"node"}},
      {Agent({"--labels", "zone"}), {"labels", "zone", "KEY=VALUE"}},
      {Agent({"--labels", "zone=a,zone=b"}), {"labels", "twice"}},
      {{PathOfBinary("maypole-coordinator"), "--agent-lease", "10ms"}, {"agent-lease", "10ms"}},
      {{PathOfBinary("maypole-coordinator"), "--world-size-max", "0"}, {"world-size-max", "0"}},
      {{PathOfBinary("maypole-coordinator"), "--port", "x"}, {"port", "x"}},
      {{PathOfBinary("maypole-coordinator"), "extra"}, {"extra"}},
  };
  for (const auto& [command, words] : cases) {
    const EndedProcess ended = RunToEnd(command);
    EXPECT_EQ(ended.code, 2) << ::testing::PrintToString(command) << ended.output;
    for (const std::string& word : words) {
      EXPECT_THAT(ended.output, HasSubstr(word)) << ::testing::PrintToString(command);
    }
  }
}

TEST_F(StartingTest, WhatTheMachineDoesNotHaveIsNamed) {
  const EndedProcess address = RunToEnd(Agent({"--http-listen", "203.0.113.1"}));
  EXPECT_EQ(address.code, 1);
  EXPECT_THAT(address.output, HasSubstr("--http-listen 203.0.113.1"));
  const EndedProcess interface = RunToEnd(Agent({"--interface", "nosuch0"}));
  EXPECT_EQ(interface.code, 1);
  EXPECT_THAT(interface.output, AllOf(HasSubstr("nosuch0"), HasSubstr("interface")));
  const EndedProcess transports = RunToEnd(Agent({"--ucx-tls", "carrier-pigeon"}));
  EXPECT_EQ(transports.code, 1);
  EXPECT_THAT(transports.output, HasSubstr("carrier-pigeon"));
}

TEST_F(StartingTest, BadVariablesAreRefusedWithNameAndValue) {
  const EndedProcess ended = RunToEnd(Agent({}), {"MAYPOLE_REDUCE_THREADS=many"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, AllOf(HasSubstr("MAYPOLE_REDUCE_THREADS"), HasSubstr("many")));
}

TEST_F(StartingTest, BadRulesAreRefusedWithFileLineAndValue) {
  const std::string path = folder() + "/rules.toml";
  std::ofstream(path) << "[[rule]]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n"
                         "from = \"25Gb\"\n";
  const EndedProcess ended =
      RunToEnd({PathOfBinary("maypole-coordinator"), "--tuning-rules", path});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("tuning-rules"), HasSubstr(path + ", line 4"), HasSubstr("25Gb")));
  std::filesystem::remove(path);
}

TEST_F(StartingTest, BadConfigurationFilesAreRefusedWithTheirPath) {
  const std::string path = folder() + "/agent.toml";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"reduce-threads = 1000\n", "reduce-threads"},
      {"no-such-key = 1\n", "no-such-key"},
      {"[broken\n= =\n", path},
  };
  for (const auto& [text, word] : cases) {
    std::ofstream(path) << text;
    const EndedProcess ended = RunToEnd(Agent({"--config", path}));
    EXPECT_EQ(ended.code, 2) << text << ended.output;
    EXPECT_THAT(ended.output, HasSubstr(word)) << text;
  }
  std::filesystem::remove(path);
  EXPECT_THAT(RunToEnd(Agent({"--config", path})).output, HasSubstr(path));
}

}  // namespace
}  // namespace maypole::test
