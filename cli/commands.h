// The sub-commands of `maypole`. Each function registers one; its work is done within the parse,
// and sets `exit_code`.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace maypole::cli {

void AddLocalCommand(CLI::App& app, int& exit_code);      // local.cc
void AddBenchCommand(CLI::App& app, int& exit_code);      // bench/bench.cc
void AddBenchRankCommand(CLI::App& app, int& exit_code);  // bench/bench_rank.cc
void AddStatusCommand(CLI::App& app, int& exit_code);     // status.cc
void AddPlanCommand(CLI::App& app, int& exit_code);       // plan/plan.cc
void AddDoctorCommand(CLI::App& app, int& exit_code);     // doctor/doctor.cc

// Prints "maypole COMMAND: text" to standard error and returns 1, the exit code of a failure.
int Fail(const std::string& command, const std::string& text);

}  // namespace maypole::cli
