#include "daemon/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <system_error>

#include <CLI/CLI.hpp>

#include "daemon/parse.h"
#include "daemon/version.h"

namespace maypole::daemon {
namespace {

constexpr int kBadOption = 2;
constexpr char kConfig[] = "config";

std::string HelpOf(const Options::Declaration& option) {
  std::string help = option.help + " [" + VariableOf(option.name);
  if (!option.default_text.empty()) {
    help += "; default " + option.default_text;
  }
  return help + "]";
}

// A text from one of the three places, and that place in words.
struct Given {
  std::string text;
  std::string source;
};

using FileValues = std::map<std::string, std::string>;

absl::StatusOr<FileValues> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::error_code ignored;
  if (file && !std::filesystem::is_regular_file(path, ignored) &&
      !std::filesystem::is_fifo(path, ignored)) {
    return absl::NotFoundError("--config: \"" + path + "\" is not a file");
  }
  if (!file) {
    return absl::NotFoundError("--config: cannot read \"" + path + "\"");
  }
  FileValues values;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
      if (item.name == "++" || item.name == "--") {  // CLI11's marks for the borders of a section
        continue;
      }
      // A TOML array is the same as its elements joined by commas on the command line.
      if (!values.emplace(item.fullname(), CLI::detail::join(item.inputs, ",")).second) {
        return absl::InvalidArgumentError("key \"" + item.fullname() + "\" stands twice in " +
                                          path);
      }
    }
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError("--config: " + path + ": " + error.what());
  }
  return values;
}

// The command line of one parse: CLI11 knows the flags' names and writes --help; the values are
// ours to judge.
class CommandLine {
 public:
  CommandLine(const std::string& program,
              const std::string& purpose,
              const std::vector<Options::Declaration>& declarations)
      : app_(purpose, program) {
    app_.set_version_flag("--version", program + " " + Version(), "Print the release and exit");
    for (const Options::Declaration& option : declarations) {
      CLI::Option* flag = option.is_switch ? app_.add_flag("--" + option.name)
                                           : app_.add_option("--" + option.name)->expected(1);
      flag->description(HelpOf(option));
      flag->option_text(option.is_switch ? "" : option.form);
      flags_[option.name] = flag;
    }
    app_.footer(
        "Every option is also an environment variable (in brackets) and a key of the same name "
        "without the\n"
        "dashes in the TOML file given by --config. A flag wins over a variable, a variable over "
        "the file.");
  }

  Options::Result Parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      return {.exit_code = 0, .output = app_.help(), .error = ""};
    } catch (const CLI::CallForVersion& version) {
      return {.exit_code = 0, .output = std::string(version.what()) + "\n", .error = ""};
    } catch (const CLI::ParseError& error) {
      return {.exit_code = kBadOption, .output = "", .error = error.what()};
    }
    return {};
  }

  std::optional<std::string> Value(const std::string& name) const {
    const CLI::Option* flag = flags_.at(name);
    return flag->count() == 0 ? std::nullopt : std::optional(flag->results().back());
  }

 private:
  CLI::App app_;
  std::map<std::string, CLI::Option*> flags_;
};

std::optional<Given> FromFlagOrVariable(const std::string& name,
                                        const CommandLine& line,
                                        const Options::Environment& environment) {
  if (std::optional<std::string> value = line.Value(name)) {
    return Given{*value, "flag --" + name};
  }
  if (std::optional<std::string> value = environment(VariableOf(name))) {
    return Given{*value, "variable " + VariableOf(name)};
  }
  return std::nullopt;
}

absl::Status RefuseUnknownKeys(const FileValues& file,
                               const std::string& path,
                               const std::vector<Options::Declaration>& declarations) {
  for (const auto& [key, value] : file) {
    const bool known = key != kConfig && std::any_of(declarations.begin(),
                                                     declarations.end(),
                                                     [&](const Options::Declaration& option) {
                                                       return option.name == key;
                                                     });
    if (!known) {
      return absl::InvalidArgumentError("unknown key \"" + key + "\" (value \"" + value +
                                        "\") in " + path +
                                        ": the keys are the flags of --help without dashes");
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyAll(const std::vector<Options::Declaration>& declarations,
                      const CommandLine& line,
                      const Options::Environment& environment) {
  FileValues file;
  std::string path;
  if (std::optional<Given> config = FromFlagOrVariable(kConfig, line, environment)) {
    path = config->text;
    absl::StatusOr<FileValues> values = ReadFile(path);
    if (!values.ok()) {
      return values.status();
    }
    file = *std::move(values);
  }
  if (absl::Status status = RefuseUnknownKeys(file, path, declarations); !status.ok()) {
    return status;
  }
  for (const Options::Declaration& option : declarations) {
    std::optional<Given> given = FromFlagOrVariable(option.name, line, environment);
    if (!given && file.contains(option.name)) {
      given = Given{file.at(option.name), "key " + option.name + " in " + path};
    }
    if (!given) {
      continue;
    }
    if (absl::Status status = option.apply(given->text); !status.ok()) {
      return absl::InvalidArgumentError("--" + option.name + ": " + std::string(status.message()) +
                                        " (from the " + given->source + ")");
    }
  }
  return absl::OkStatus();
}

template <typename T>
Options::Apply Setter(T* target, absl::StatusOr<T> (*parse)(std::string_view)) {
  return [target, parse](const std::string& text) {
    absl::StatusOr<T> value = parse(text);
    if (value.ok()) {
      *target = *value;
    }
    return value.status();
  };
}

template <typename T>
Options::Apply AtLeast(T min,
                       T* target,
                       absl::StatusOr<T> (*parse)(std::string_view),
                       std::string (*format)(T)) {
  return [=](const std::string& text) {
    absl::StatusOr<T> value = parse(text);
    if (value.ok() && *value < min) {
      return absl::InvalidArgumentError("\"" + text + "\" is less than the least allowed, " +
                                        format(min));
    }
    if (value.ok()) {
      *target = *value;
    }
    return value.status();
  };
}

}  // namespace

std::string VariableOf(const std::string& option) {
  std::string variable = "MAYPOLE_";
  for (char c : option) {
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return variable;
}

Options::Options(std::string program, std::string purpose)
    : program_(std::move(program)), purpose_(std::move(purpose)) {
  Custom({.name = kConfig,
          .form = "FILE",
          .default_text = "",
          .help = "TOML file with options",
          .apply = [](const std::string&) { return absl::OkStatus(); }});
}

void Options::Text(std::string name, std::string form, std::string* target, std::string help) {
  Custom({.name = std::move(name),
          .form = std::move(form),
          .default_text = *target,
          .help = std::move(help),
          .apply = [target](const std::string& text) {
            *target = text;
            return absl::OkStatus();
          }});
}

void Options::Bytes(std::string name, std::uint64_t* target, std::uint64_t min, std::string help) {
  Custom({.name = std::move(name),
          .form = "SIZE",
          .default_text = FormatBytes(*target),
          .help = std::move(help),
          .apply = AtLeast(min, target, &ParseBytes, &FormatBytes)});
}

void Options::Time(std::string name, Duration* target, Duration min, std::string help) {
  Custom({.name = std::move(name),
          .form = "TIME",
          .default_text = FormatDuration(*target),
          .help = std::move(help),
          .apply = AtLeast(min, target, &ParseDuration, &FormatDuration)});
}

void Options::Switch(std::string name, bool* target, std::string help) {
  Custom({.name = std::move(name),
          .form = "",
          .default_text = *target ? "true" : "false",
          .help = std::move(help),
          .is_switch = true,
          .apply = Setter(target, &ParseBool)});
}

void Options::HostPort(std::string name, std::string* target, std::string help) {
  Custom({.name = std::move(name),
          .form = "HOST:PORT",
          .default_text = *target,
          .help = std::move(help),
          .apply = [target](const std::string& text) {
            absl::StatusOr<daemon::HostPort> value = ParseHostPort(text);
            if (value.ok()) {
              *target = text;
            }
            return value.status();
          }});
}

void Options::Port(std::string name, std::uint16_t* target, std::string help) {
  Integer<std::uint16_t>(
      std::move(name), target, 0, 65535, std::move(help) + " (0: any that is free)");
}

void Options::Choice(std::string name,
                     std::vector<std::string> choices,
                     std::string* target,
                     std::string help) {
  const std::string list = CLI::detail::join(choices, ", ");
  Custom({.name = std::move(name),
          .form = "WORD",
          .default_text = *target,
          .help = std::move(help) + ": " + list,
          .apply = [target, choices, list](const std::string& text) {
            if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
              return absl::InvalidArgumentError("\"" + text + "\" is not one of " + list);
            }
            *target = text;
            return absl::OkStatus();
          }});
}

void Options::AddInteger(std::string name,
                         std::int64_t default_value,
                         std::int64_t min,
                         std::int64_t max,
                         std::string help,
                         std::function<void(std::int64_t)> set) {
  Custom({.name = std::move(name),
          .form = "NUMBER",
          .default_text = std::to_string(default_value),
          .help = std::move(help),
          .apply = [min, max, set = std::move(set)](const std::string& text) {
            absl::StatusOr<std::int64_t> value = ParseInteger(text, min, max);
            if (value.ok()) {
              set(*value);
            }
            return value.status();
          }});
}

void Options::Custom(Declaration declaration) {
  declarations_.push_back(std::move(declaration));
}

Options::Result Options::Parse(std::vector<std::string> arguments,
                               const Environment& environment) const {
  CommandLine line(program_, purpose_, declarations_);
  Result result = line.Parse(std::move(arguments));
  if (!result.exit_code) {
    if (absl::Status status = ApplyAll(declarations_, line, environment); !status.ok()) {
      result = {.exit_code = kBadOption, .output = "", .error = std::string(status.message())};
    }
  }
  if (!result.error.empty()) {
    result.error = program_ + ": " + result.error + "\nSee " + program_ + " --help.\n";
  }
  return result;
}

std::optional<int> Options::ParseProcess(int argc, const char* const* argv) const {
  Result result = Parse({argv + std::min(argc, 1), argv + argc}, [](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  std::cout << result.output << std::flush;
  std::cerr << result.error << std::flush;
  return result.exit_code;
}

}  // namespace maypole::daemon
