// `maypole`: a person's tool. Parses the command line; every sub-command does its work in a file of
// its own.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "maypole/maypole.h"

namespace maypole::cli {

int Fail(const std::string& command, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "maypole %s: %s\n", command.c_str(), text.c_str());
  return 1;
}

}  // namespace maypole::cli

int main(int argc, char** argv) {
  CLI::App app("Maypole: sums gradients for data-parallel training. A tool for people.", "maypole");
  app.set_version_flag("--version", maypole_version());
  app.set_config("--config", "", "TOML file; a section per command, e.g. [bench]")
      ->envname("MAYPOLE_CONFIG");
  app.require_subcommand(1);
  int exit_code = 0;
  maypole::cli::AddLocalCommand(app, exit_code);
  maypole::cli::AddBenchCommand(app, exit_code);
  maypole::cli::AddBenchRankCommand(app, exit_code);
  maypole::cli::AddStatusCommand(app, exit_code);
  maypole::cli::AddPlanCommand(app, exit_code);
  maypole::cli::AddDoctorCommand(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
