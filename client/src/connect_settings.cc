#include "client/src/connect_settings.h"

#include <sys/un.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "client/src/failure.h"
#include "proto/handshake.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

constexpr const char* kDefaultSocket = "/run/maypole/agent.sock";
constexpr double kDefaultTimeoutSeconds = 60;
constexpr double kTimeoutSecondsMax = 1e9;

std::string FirstOf(const char* option, const char* variable, const char* otherwise) {
  if (option != nullptr) {
    return option;
  }
  return variable != nullptr && *variable != '\0' ? variable : otherwise;
}

Outcome ReadNumber(const Environment& environment, const char* name, std::int64_t& number) {
  const char* value = environment(name);
  if (value == nullptr) {
    return InvalidArgument(std::string(name) +
                           " is not set: set RANK and WORLD_SIZE, or pass rank and world_size");
  }
  const std::string_view text(value);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument(std::string(name) + " is '" + value + "', which is not a whole number");
  }
  return {};
}

Outcome ReadSwitch(const Environment& environment, const char* name, bool& is_on) {
  const std::string text = FirstOf(nullptr, environment(name), "0");
  if (text != "0" && text != "1") {
    return InvalidArgument(std::string(name) + "='" + text + "' is neither 0 nor 1");
  }
  is_on = text == "1";
  return {};
}

Outcome CheckRank(std::int64_t rank, std::int64_t world_size) {
  if (world_size < 1 || world_size > std::numeric_limits<std::uint32_t>::max()) {
    return InvalidArgument("world size " + std::to_string(world_size) +
                           " is not in 1 .. 4294967295");
  }
  if (rank < 0 || rank >= world_size) {
    return InvalidArgument("rank " + std::to_string(rank) +
                           " is not in 0 .. world size - 1 = " + std::to_string(world_size - 1));
  }
  return {};
}

Outcome CheckTexts(const ConnectSettings& settings) {
  if (settings.job.empty() || settings.job.size() > kJobNameBytesMax) {
    return InvalidArgument("the job's name has " + std::to_string(settings.job.size()) +
                           " bytes; it must have 1 .. " + std::to_string(kJobNameBytesMax));
  }
  if (!IsPrintableUtf8(settings.job)) {
    return InvalidArgument("the job's name is not printable UTF-8");
  }
  constexpr std::size_t kPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;
  if (settings.socket.empty() || settings.socket.size() > kPathBytesMax) {
    return InvalidArgument("the socket's path '" + settings.socket + "' has " +
                           std::to_string(settings.socket.size()) + " bytes; it must have 1 .. " +
                           std::to_string(kPathBytesMax));
  }
  return {};
}

}  // namespace

Outcome ResolveConnectSettings(const maypole_connect_options* options,
                               const Environment& environment,
                               ConnectSettings& settings) {
  const maypole_connect_options given = options != nullptr ? *options : maypole_connect_options{};
  std::int64_t rank = given.rank;
  std::int64_t world_size = given.world_size;
  if (world_size == 0) {
    for (const auto& [name, number] : {std::pair{"RANK", &rank}, {"WORLD_SIZE", &world_size}}) {
      if (Outcome read = ReadNumber(environment, name, *number); !read.ok()) {
        return read;
      }
    }
  }
  if (Outcome checked = CheckRank(rank, world_size); !checked.ok()) {
    return checked;
  }
  if (std::isnan(given.timeout)) {
    return InvalidArgument("the timeout is not a number");
  }
  if (Outcome read = ReadSwitch(environment, "MAYPOLE_DETERMINISTIC", settings.deterministic);
      !read.ok()) {
    return read;
  }
  settings.deterministic = settings.deterministic || given.deterministic != 0;
  const double timeout = given.timeout > 0 ? given.timeout : kDefaultTimeoutSeconds;
  settings.socket = FirstOf(given.socket, environment("MAYPOLE_SOCKET"), kDefaultSocket);
  settings.job = FirstOf(given.job, environment("MAYPOLE_JOB"), "default");
  settings.rank = static_cast<std::uint32_t>(rank);
  settings.world_size = static_cast<std::uint32_t>(world_size);
  settings.timeout = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(timeout, kTimeoutSecondsMax)));
  return CheckTexts(settings);
}

}  // namespace maypole::client::internal
