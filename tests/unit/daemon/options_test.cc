#include "daemon/options.h"

#include <cstdio>
#include <fstream>
#include <map>

#include <gmock/gmock.h>

namespace maypole::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OptionsTest : public testing::Test {
 protected:
  OptionsTest() : options_("maypole-test", "A test") {
    options_.Port("peer-port", &port_, "Port");
    options_.Text("node", "NAME", &node_, "Name");
    options_.Bytes("pool-size", &bytes_, 4096, "Size");
    options_.Time("lease", &lease_, std::chrono::seconds(1), "Lease");
    options_.Switch("spin", &spin_, "Spin");
    options_.Choice("mode", {"fast", "safe"}, &mode_, "Mode");
    options_.HostPort("coordinator", &coordinator_, "Coordinator");
    options_.Integer<int>("threads", &threads_, 1, 64, "Threads");
  }

  ~OptionsTest() override { std::remove(path_.c_str()); }

  Options::Result Parse(std::vector<std::string> arguments) {
    return options_.Parse(std::move(arguments), [this](const std::string& name) {
      const auto found = environment_.find(name);
      return found == environment_.end() ? std::nullopt : std::optional(found->second);
    });
  }

  // Writes the file and gives the flag's two words.
  std::vector<std::string> Config(const std::string& text) {
    std::ofstream(path_) << text;
    return {"--config", path_};
  }

  std::string Refusal(std::vector<std::string> arguments) {
    const Options::Result result = Parse(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output, "");
    return result.error;
  }

  std::map<std::string, std::string> environment_;
  std::string path_ = testing::TempDir() + "options_test." +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
  std::uint16_t port_ = 7710;
  std::string node_ = "me";
  std::uint64_t bytes_ = 1 << 20;
  Duration lease_ = std::chrono::seconds(3);
  bool spin_ = false;
  std::string mode_ = "safe";
  std::string coordinator_ = "127.0.0.1:7700";
  int threads_ = 2;
  Options options_;
};

TEST_F(OptionsTest, KeepsDefaultsWhenNothingIsGiven) {
  EXPECT_FALSE(Parse({}).exit_code);
  EXPECT_EQ(port_, 7710);
  EXPECT_EQ(node_, "me");
}

TEST_F(OptionsTest, FlagWinsOverVariableOverFileOverDefault) {
  auto config = Config("peer-port = 1\n");
  EXPECT_FALSE(Parse(config).exit_code);
  EXPECT_EQ(port_, 1);
  environment_["MAYPOLE_PEER_PORT"] = "2";
  EXPECT_FALSE(Parse(config).exit_code);
  EXPECT_EQ(port_, 2);
  config.insert(config.end(), {"--peer-port", "3"});
  EXPECT_FALSE(Parse(config).exit_code);
  EXPECT_EQ(port_, 3);
}

TEST_F(OptionsTest, TakesEveryKindFromEachSource) {
  const std::vector<std::string> flags = {"--node=n1",
                                          "--pool-size=64KiB",
                                          "--lease=5s",
                                          "--spin",
                                          "--mode=fast",
                                          "--coordinator=c:1",
                                          "--threads=4"};
  const auto check = [this] {
    EXPECT_EQ(node_, "n1");
    EXPECT_EQ(bytes_, 65536u);
    EXPECT_EQ(lease_, std::chrono::seconds(5));
    EXPECT_TRUE(spin_);
    EXPECT_EQ(mode_, "fast");
    EXPECT_EQ(coordinator_, "c:1");
    EXPECT_EQ(threads_, 4);
  };
  const auto forget = [this] {
    node_ = mode_ = coordinator_ = "";
    bytes_ = 0;
    lease_ = Duration{0};
    spin_ = false;
    threads_ = 0;
  };
  EXPECT_EQ(Parse(flags).error, "");
  check();
  forget();
  EXPECT_EQ(Parse(Config("# a comment\nnode = \"n1\"\npool-size = \"64KiB\"\nlease = \"5s\" # "
                         "why\nspin = true\n"
                         "mode = 'fast'\ncoordinator = \"c:1\"\nthreads = 4\n"))
                .error,
            "");
  check();
  forget();
  environment_ = {{"MAYPOLE_NODE", "n1"},
                  {"MAYPOLE_POOL_SIZE", "64KiB"},
                  {"MAYPOLE_LEASE", "5s"},
                  {"MAYPOLE_SPIN", "yes"},
                  {"MAYPOLE_MODE", "fast"},
                  {"MAYPOLE_COORDINATOR", "c:1"},
                  {"MAYPOLE_THREADS", "4"}};
  EXPECT_EQ(Parse({}).error, "");
  check();
}

TEST_F(OptionsTest, ASwitchCanBeTurnedOffByFlag) {
  spin_ = true;
  EXPECT_FALSE(Parse({"--spin=false"}).exit_code);
  EXPECT_FALSE(spin_);
}

TEST_F(OptionsTest, TheFileItselfMayComeFromTheEnvironment) {
  environment_["MAYPOLE_CONFIG"] = Config("threads = 8")[1];
  EXPECT_FALSE(Parse({}).exit_code);
  EXPECT_EQ(threads_, 8);
}

TEST_F(OptionsTest, BadValuesAreRefusedWithOptionValueFormAndSource) {
  EXPECT_THAT(Refusal({"--peer-port", "70000"}),
              AllOf(HasSubstr("--peer-port"),
                    HasSubstr("\"70000\""),
                    HasSubstr("0 to 65535"),
                    HasSubstr("flag")));
  EXPECT_THAT(Refusal({"--threads", "0"}), AllOf(HasSubstr("--threads"), HasSubstr("1 to 64")));
  EXPECT_THAT(Refusal({"--lease", "100ms"}),
              AllOf(HasSubstr("--lease"), HasSubstr("\"100ms\""), HasSubstr("1s")));
  EXPECT_THAT(Refusal({"--pool-size", "0"}),
              AllOf(HasSubstr("--pool-size"), HasSubstr("\"0\""), HasSubstr("4KiB")));
  EXPECT_THAT(Refusal({"--mode", "quick"}), AllOf(HasSubstr("\"quick\""), HasSubstr("fast, safe")));
  EXPECT_THAT(Refusal({"--spin=maybe"}), AllOf(HasSubstr("--spin"), HasSubstr("maybe")));
  EXPECT_THAT(Refusal(Config("coordinator = \"nowhere\"")),
              AllOf(HasSubstr("--coordinator"), HasSubstr("\"nowhere\""), HasSubstr(path_)));
  environment_["MAYPOLE_POOL_SIZE"] = "big";
  EXPECT_THAT(
      Refusal({}),
      AllOf(HasSubstr("--pool-size"), HasSubstr("\"big\""), HasSubstr("MAYPOLE_POOL_SIZE")));
}

TEST_F(OptionsTest, BadValuesOfALosingSourceDoNotMatter) {
  environment_["MAYPOLE_THREADS"] = "many";
  EXPECT_FALSE(Parse({"--threads", "3"}).exit_code);
}

TEST_F(OptionsTest, UnknownFlagsAreRefused) {
  EXPECT_THAT(Refusal({"--peer-prt", "1"}), AllOf(HasSubstr("--peer-prt"), HasSubstr("--help")));
  EXPECT_THAT(Refusal({"stray"}), HasSubstr("stray"));
}

TEST_F(OptionsTest, AFlagWithoutOrWithTwoValuesIsRefused) {
  EXPECT_THAT(Refusal({"--node"}), HasSubstr("--node"));
  EXPECT_THAT(Refusal({"--node", "a", "--node", "b"}), HasSubstr("--node"));
}

TEST_F(OptionsTest, UnknownOrDoubleKeysInTheFileAreRefused) {
  EXPECT_THAT(Refusal(Config("peer-prt = 1\n")), AllOf(HasSubstr("peer-prt"), HasSubstr(path_)));
  EXPECT_THAT(Refusal(Config("[agent]\npeer-port = 1\n")), HasSubstr("agent.peer-port"));
  EXPECT_THAT(Refusal(Config("config = \"x\"\n")), HasSubstr("config"));
  EXPECT_THAT(Refusal(Config("threads = 1\nnode = \"x\"\nthreads = 2\n")), HasSubstr("twice"));
  EXPECT_THAT(Refusal(Config("threads = 1\nthreads = 2\n")), HasSubstr("\"1,2\""));
}

TEST_F(OptionsTest, AMissingFileIsRefused) {
  EXPECT_THAT(Refusal({"--config", "/"}), AllOf(HasSubstr("--config"), HasSubstr("not a file")));
  EXPECT_THAT(Refusal({"--config", "/nowhere/x.toml"}),
              AllOf(HasSubstr("--config"), HasSubstr("/nowhere/x.toml")));
}

TEST_F(OptionsTest, HelpDocumentsFlagVariableAndDefault) {
  const Options::Result result = Parse({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* text : {"--peer-port",
                           "MAYPOLE_PEER_PORT",
                           "7710",
                           "--config",
                           "MAYPOLE_CONFIG",
                           "1MiB",
                           "3s",
                           "fast, safe",
                           "TOML"}) {
    EXPECT_THAT(result.output, HasSubstr(text));
  }
}

TEST_F(OptionsTest, VersionIsPrinted) {
  const Options::Result result = Parse({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.output, testing::MatchesRegex("maypole-test [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace maypole::daemon
