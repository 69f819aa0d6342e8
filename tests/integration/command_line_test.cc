// What holds for every command of `maypole`: where an option's value comes from, and what becomes
// of the output.
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Texts = std::vector<std::string>;

class CommandLineTest : public IntegrationTest {
 protected:
  CommandLineTest() : file_(folder() + "/maypole.toml") {}

  void TearDown() override {
    std::filesystem::remove(file_);
    IntegrationTest::TearDown();
  }

  static Texts Maypole(const Texts& arguments) {
    Texts command = {PathOfBinary("maypole")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  static Texts Plan(const Texts& more) {
    Texts arguments = {"plan", "--ranks", "4", "--bandwidth", "1Gbps"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Maypole(arguments);
  }

  void WriteFile(const std::string& text) const { std::ofstream(file_) << text; }

  const std::string file_;
};

TEST_F(CommandLineTest, AFlagWinsOverAVariableAndAVariableOverTheFile) {
  WriteFile("[plan]\nbytes = \"1MB\"\njson = true\n");
  const std::string config = "MAYPOLE_CONFIG=" + file_;
  const EndedProcess by_file = RunToEnd(Plan({}), {config});
  EXPECT_EQ(by_file.code, 0) << by_file.output;
  EXPECT_THAT(by_file.output, HasSubstr("\"recommended\""));
  const Texts both = {config, "MAYPOLE_BYTES=2GB", "MAYPOLE_JSON=false"};
  EXPECT_THAT(RunToEnd(Plan({}), both).output, HasSubstr("2.000 GB over 4 ranks"));
  EXPECT_THAT(RunToEnd(Plan({"--bytes", "3GB"}), both).output, HasSubstr("3.000 GB over 4 ranks"));
}

TEST_F(CommandLineTest, EveryOptionOfEveryCommandIsAVariable) {
  for (const char* command : {"local", "bench", "status", "plan", "doctor"}) {
    const EndedProcess help = RunToEnd(Maypole({command, "--help"}));
    std::istringstream lines(help.output);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t dashes = line.find("  --");
      if (dashes == 0) {
        EXPECT_THAT(line, HasSubstr("(Env:MAYPOLE_")) << command;
      }
    }
  }
}

TEST_F(CommandLineTest, AVariableOfAnotherCommandIsNotLookedAt) {
  EXPECT_EQ(RunToEnd(Plan({"--bytes", "1MB"}), {"MAYPOLE_NODES=many", "MAYPOLE_STEP=0"}).code, 0);
  const EndedProcess refused = RunToEnd(Maypole({"local", "--", "true"}), {"MAYPOLE_NODES=many"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.output, AllOf(HasSubstr("--nodes"), HasSubstr("many")));
}

TEST_F(CommandLineTest, AFileWithAnUnknownKeyOrNoneAtAllIsRefused) {
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {"[plan]\nbyte = \"1MB\"\n", "plan.byte"},
           {"[bench]\nno-such-key = 1\n", "bench.no-such-key"},
           {"[plann]\nbytes = \"1MB\"\n", "plann.bytes"},
           {"bytes = \"1MB\"\n", "bytes"}}) {
    WriteFile(text);
    const EndedProcess ended = RunToEnd(Plan({"--bytes", "1MB"}), {"MAYPOLE_CONFIG=" + file_});
    EXPECT_NE(ended.code, 0) << text;
    EXPECT_THAT(ended.output, HasSubstr(word));
  }
  std::filesystem::remove(file_);
  const EndedProcess missing = RunToEnd(Plan({"--bytes", "1MB"}), {"MAYPOLE_CONFIG=" + file_});
  EXPECT_NE(missing.code, 0);
  EXPECT_THAT(missing.output, HasSubstr(file_));
}

TEST_F(CommandLineTest, OneFileServesTheToolAndTheClusterThatItStarts) {
  WriteFile("[bench]\nsizes = \"4KiB\"\niterations = 1\n[local]\nnodes = 1\n");
  const Texts config = {"MAYPOLE_CONFIG=" + file_};
  const EndedProcess bench = RunToEnd(Maypole({"bench", "--local", "1x1", "--check"}), config);
  EXPECT_EQ(bench.code, 0) << bench.output;
  EXPECT_THAT(bench.output, AllOf(HasSubstr("4096"), Not(HasSubstr("16384"))));
  const EndedProcess local =
      RunToEnd(Maypole({"local", "--", "sh", "-c", "echo $WORLD_SIZE"}), config);
  EXPECT_EQ(local.code, 0) << local.output;
  EXPECT_THAT(local.output, HasSubstr("[0] 1\n"));
}

TEST_F(CommandLineTest, OutputThatCannotBeWrittenIsAFailureWithTheReason) {
  for (const std::string arguments : {"plan --bytes 1MB --ranks 4 --bandwidth 1Gbps --json",
                                      "plan --help",
                                      "--version",
                                      "doctor"}) {
    const EndedProcess ended =
        RunToEnd({"sh", "-c", "exec \"$0\" " + arguments + " >/dev/full", PathOfBinary("maypole")});
    EXPECT_EQ(ended.code, 1) << arguments;
    EXPECT_THAT(ended.output, HasSubstr("cannot write all of the output")) << arguments;
  }
}

TEST_F(CommandLineTest, ABenchIsOfOneClusterOnly) {
  const EndedProcess both = RunToEnd(Maypole({"bench", "--local", "2x1", "--socket", "/none"}));
  EXPECT_NE(both.code, 0);
  EXPECT_THAT(both.output, AllOf(HasSubstr("--local"), HasSubstr("--socket")));
  const EndedProcess links = RunToEnd(Maypole({"bench", "--socket", "/none", "--netns"}));
  EXPECT_NE(links.code, 0);
  EXPECT_THAT(links.output, AllOf(HasSubstr("--netns"), HasSubstr("--socket")));
  const EndedProcess in_the_shell_of_a_rank =
      RunToEnd(Maypole({"bench", "--local", "1x1", "--sizes", "4KiB", "--iterations", "1"}),
               {"MAYPOLE_SOCKET=/none"});
  EXPECT_EQ(in_the_shell_of_a_rank.code, 0) << in_the_shell_of_a_rank.output;
}

TEST_F(CommandLineTest, AnAlgorithmOfBenchIsAnyNameThatTheAgentsKnow) {
  const auto bench = [](const std::string& algorithm) {
    return RunToEnd(
        Maypole({"bench", "--local", "2x1", "--sizes", "4KiB", "--algorithm", algorithm}));
  };
  EXPECT_THAT(bench("star").output,
              AllOf(HasSubstr("--algorithm: \"star\""), HasSubstr("double_tree")));
  const EndedProcess without_levels = bench("hierarchical");
  EXPECT_EQ(without_levels.code, 1);
  EXPECT_THAT(without_levels.output, HasSubstr("hierarchical needs levels"));
}

TEST_F(CommandLineTest, AProxyIsNotTheWayToACoordinator) {
  const TestCluster cluster({.nodes = 1});
  const EndedProcess status =
      RunToEnd(Maypole({"status", "--coordinator", cluster.coordinator_address()}),
               {"http_proxy=http://127.0.0.1:1", "no_proxy=", "no_grpc_proxy="});
  EXPECT_EQ(status.code, 0) << status.output;
  EXPECT_THAT(status.output, HasSubstr("node-0"));
}

}  // namespace
}  // namespace maypole::test
