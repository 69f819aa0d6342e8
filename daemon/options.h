// Options of a daemon. Each is a flag (--peer-port), an environment variable (MAYPOLE_PEER_PORT)
// and a key (peer-port) in the TOML file that --config names; the flag wins over the variable, the
// variable over the file, the file over the default. --help documents all of them, --version prints
// the release.
//
// A bad value or an unknown key is refused with the option's name, the value, its source and the
// allowed form. Declare everything, then parse once. Targets hold the defaults beforehand and must
// outlive the parsing.
//
// Threads: confined.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/time.h"

namespace maypole::daemon {

// Of an option without its dashes: MAYPOLE_PEER_PORT of "peer-port".
std::string VariableOf(const std::string& option);

inline constexpr char kConfigVariable[] = "MAYPOLE_CONFIG";

class Options {
 public:
  // Sets the target from the text, or says what is wrong with it.
  using Apply = std::function<absl::Status(const std::string& text)>;
  // The value of an environment variable, if it is set.
  using Environment = std::function<std::optional<std::string>(const std::string& name)>;

  struct Declaration {
    std::string name;          // "peer-port"
    std::string form;          // for --help: "PORT"
    std::string default_text;  // for --help
    std::string help;
    bool is_switch = false;  // the flag needs no value
    Apply apply;
  };

  struct Result {
    std::optional<int> exit_code;  // set: the process is to end with it
    std::string output;            // for stdout
    std::string error;             // for stderr
  };

  Options(std::string program, std::string purpose);

  // `name` is lower case with dashes..
  void Text(std::string name, std::string form, std::string* target, std::string help);
  // At least `min`.
  void Bytes(std::string name, std::uint64_t* target, std::uint64_t min, std::string help);
  void Time(std::string name, Duration* target, Duration min, std::string help);
  void Switch(std::string name, bool* target, std::string help);
  // "host:port"; kept as text.
  void HostPort(std::string name, std::string* target, std::string help);
  // 0 lets the operating system choose.
  void Port(std::string name, std::uint16_t* target, std::string help);
  // One of `choices`.
  void Choice(std::string name,
              std::vector<std::string> choices,
              std::string* target,
              std::string help);
  template <typename T>
  void Integer(std::string name, T* target, T min, T max, std::string help);
  // Anything else.
  void Custom(Declaration declaration);

  // `arguments` without the program's name.
  Result Parse(std::vector<std::string> arguments, const Environment& environment) const;

  // Of this process: prints what is to be printed. A value means: return it from main.
  std::optional<int> ParseProcess(int argc, const char* const* argv) const;

 private:
  std::string program_;
  std::string purpose_;
  std::vector<Declaration> declarations_;

  void AddInteger(std::string name,
                  std::int64_t default_value,
                  std::int64_t min,
                  std::int64_t max,
                  std::string help,
                  std::function<void(std::int64_t)> set);
};

template <typename T>
void Options::Integer(std::string name, T* target, T min, T max, std::string help) {
  static_assert(std::is_integral_v<T>);
  AddInteger(std::move(name),
             static_cast<std::int64_t>(*target),
             static_cast<std::int64_t>(min),
             static_cast<std::int64_t>(max),
             std::move(help),
             [target](std::int64_t value) { *target = static_cast<T>(value); });
}

}  // namespace maypole::daemon
