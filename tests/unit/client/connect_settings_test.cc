#include "client/src/connect_settings.h"

#include <cmath>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::client::internal {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Outcome Resolve(const maypole_connect_options* options,
                Variables variables,
                ConnectSettings& settings) {
  return ResolveConnectSettings(
      options,
      [&variables](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      settings);
}

std::string ErrorOf(const maypole_connect_options* options, Variables variables) {
  ConnectSettings settings;
  const Outcome outcome = Resolve(options, std::move(variables), settings);
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  return outcome.text;
}

TEST(ConnectSettings, ComeFromTheEnvironmentWithoutOptions) {
  ConnectSettings settings;
  ASSERT_TRUE(Resolve(nullptr,
                      {{"RANK", "3"},
                       {"WORLD_SIZE", "8"},
                       {"MAYPOLE_JOB", "digits"},
                       {"MAYPOLE_SOCKET", "/tmp/a.sock"}},
                      settings)
                  .ok());
  EXPECT_EQ(settings.rank, 3u);
  EXPECT_EQ(settings.world_size, 8u);
  EXPECT_EQ(settings.job, "digits");
  EXPECT_EQ(settings.socket, "/tmp/a.sock");
  EXPECT_EQ(settings.timeout, std::chrono::seconds(60));
}

TEST(ConnectSettings, AreDeterministicByOptionOrEnvironment) {
  const Variables world = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const auto is_deterministic = [&](const char* value, int option) {
    ConnectSettings settings;
    Variables variables = world;
    variables["MAYPOLE_DETERMINISTIC"] = value;
    const maypole_connect_options options = {nullptr, nullptr, 0, 0, 0, option};
    EXPECT_TRUE(Resolve(&options, variables, settings).ok());
    return settings.deterministic;
  };
  EXPECT_FALSE(is_deterministic("", 0));
  EXPECT_FALSE(is_deterministic("0", 0));
  EXPECT_TRUE(is_deterministic("1", 0));
  EXPECT_TRUE(is_deterministic("0", 1));
  Variables wrong = world;
  wrong["MAYPOLE_DETERMINISTIC"] = "yes";
  EXPECT_THAT(ErrorOf(nullptr, wrong), HasSubstr("MAYPOLE_DETERMINISTIC='yes' is neither 0 nor 1"));
}

TEST(ConnectSettings, OptionsGoBeforeTheEnvironment) {
  ConnectSettings settings;
  const maypole_connect_options options = {"/x", "mine", 0, 1, 2.5, 0};
  ASSERT_TRUE(Resolve(&options, {{"RANK", "junk"}, {"MAYPOLE_JOB", "theirs"}}, settings).ok());
  EXPECT_EQ(settings.rank, 0u);
  EXPECT_EQ(settings.job, "mine");
  EXPECT_EQ(settings.socket, "/x");
  EXPECT_EQ(settings.timeout, std::chrono::milliseconds(2500));
}

TEST(ConnectSettings, HaveDefaultsForSocketAndJob) {
  ConnectSettings settings;
  const maypole_connect_options options = {nullptr, nullptr, 0, 1, 0};
  ASSERT_TRUE(Resolve(&options, {{"MAYPOLE_SOCKET", ""}}, settings).ok());
  EXPECT_EQ(settings.socket, "/run/maypole/agent.sock");
  EXPECT_EQ(settings.job, "default");
}

TEST(ConnectSettings, NumbersInTheEnvironmentAreStrict) {
  EXPECT_THAT(ErrorOf(nullptr, {}), HasSubstr("RANK is not set"));
  EXPECT_THAT(ErrorOf(nullptr, {{"RANK", "0"}}), HasSubstr("WORLD_SIZE is not set"));
  for (const char* junk : {"", "one", "1x", " 1", "0x1", "1.0", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(nullptr, {{"RANK", junk}, {"WORLD_SIZE", "2"}}),
                HasSubstr("RANK is '" + std::string(junk) + "'"));
  }
}

TEST(ConnectSettings, RankAndWorldSizeAreChecked) {
  maypole_connect_options options{};
  options.world_size = 2;
  options.rank = 2;
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("rank 2"));
  options.rank = -1;
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("rank -1"));
  options.world_size = -4;
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("world size -4"));
  options.world_size = std::int64_t{1} << 32;
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("world size 4294967296"));
  EXPECT_THAT(ErrorOf(nullptr, {{"RANK", "0"}, {"WORLD_SIZE", "0"}}), HasSubstr("world size 0"));
}

TEST(ConnectSettings, NamesAndPathsAreChecked) {
  maypole_connect_options options{};
  options.world_size = 1;
  const std::string longest(127, 'j');
  const std::string too_long(128, 'j');
  ConnectSettings settings;
  options.job = longest.c_str();
  EXPECT_TRUE(Resolve(&options, {}, settings).ok());
  options.job = too_long.c_str();
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("128 bytes"));
  options.job = "";
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("0 bytes"));
  options.job = "\xff";
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("UTF-8"));
  options.job = "job";
  const std::string path(108, 'p');
  options.socket = path.c_str();
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("108 bytes"));
  options.socket = "/x";
  options.timeout = std::nan("");
  EXPECT_THAT(ErrorOf(&options, {}), HasSubstr("timeout"));
}

}  // namespace
}  // namespace maypole::client::internal
