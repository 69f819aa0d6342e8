// `maypole`: a person's tool. Parses the command line; every sub-command does its work in a file of
// its own.
//
// Every option of a command is also a variable and a key of the file: --ranks-per-node of `local`
// is MAYPOLE_RANKS_PER_NODE, and ranks-per-node under [local]. A flag wins over a variable, a
// variable over the file, as with the daemons' options.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "daemon/options.h"
#include "maypole/maypole.h"

namespace maypole::cli {

int Fail(const std::string& command, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "maypole %s: %s\n", command.c_str(), text.c_str());
  return 1;
}

namespace {

const char* ValueOf(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

// The file without what a variable gives, as CLI11 would prefer the file; and in our words if a key
// is unknown.
class FileOfOptions final : public CLI::ConfigTOML {
 public:
  explicit FileOfOptions(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> given = CLI::ConfigTOML::from_config(input);
    std::erase_if(given, [this](const CLI::ConfigItem& item) {
      if (item.name == "++" || item.name == "--") {  // CLI11's marks for the borders of a section
        return true;
      }
      if (!IsKnown(item)) {
        throw CLI::ConfigError("unknown key \"" + item.fullname() +
                               "\" in the file of --config: keys are the flags of a command's "
                               "--help without dashes, below the command's name in brackets");
      }
      return ValueOf(daemon::VariableOf(item.name)) != nullptr;
    });
    return given;
  }

 private:
  bool IsKnown(const CLI::ConfigItem& item) const {
    const auto commands = app_.get_subcommands([&item](const CLI::App* command) {
      return item.parents == std::vector<std::string>{command->get_name()};
    });
    return !commands.empty() && commands[0]->get_option_no_throw("--" + item.name) != nullptr;
  }

  const CLI::App& app_;
};

void AddFile(CLI::App& app) {
  const char* file = ValueOf(daemon::kConfigVariable);
  app.set_config("--config",
                 file != nullptr ? file : "",
                 "TOML file; a section per command, e.g. [bench]",
                 file != nullptr)
      ->envname(daemon::kConfigVariable);  // for --help: CLI11 reads the file before variables
  app.config_formatter(std::make_shared<FileOfOptions>(app));
}

// Only of the command that is given: a variable that means another one is nothing to this one.
void NameVariables(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option != command.get_help_ptr() && !option->get_lnames().empty() &&
        option->get_envname().empty()) {
      option->envname(daemon::VariableOf(option->get_lnames().front()));
    }
  }
}

// A full disk under standard output is no success.
int CodeAfterOutput(int code) {
  const bool has_failed = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !has_failed) {
    return code;
  }
  std::fprintf(stderr,
               "maypole: cannot write all of the output%s%s\n",
               errno != 0 ? ": " : "",
               errno != 0 ? std::strerror(errno) : "");
  return code != 0 ? code : 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Maypole: sums gradients for data-parallel training. A tool for people.", "maypole");
  app.set_version_flag("--version", maypole_version());
  app.require_subcommand(1);
  app.footer(
      "Every option of a command is also an environment variable (named in its --help) and a key "
      "under the\n"
      "command's name in the TOML file. A flag wins over a variable, a variable over the file.");
  AddFile(app);
  int exit_code = 0;
  AddLocalCommand(app, exit_code);
  AddBenchCommand(app, exit_code);
  AddStatusCommand(app, exit_code);
  AddPlanCommand(app, exit_code);
  AddDoctorCommand(app, exit_code);
  for (CLI::App* command : app.get_subcommands({})) {
    command->preparse_callback([command](std::size_t) { NameVariables(*command); });
  }
  AddBenchRankCommand(app, exit_code);  // whose options `bench` gives as flags
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error);
  }
  return CodeAfterOutput(exit_code);
}

}  // namespace
}  // namespace maypole::cli

int main(int argc, char** argv) {
  return maypole::cli::Main(argc, argv);
}
