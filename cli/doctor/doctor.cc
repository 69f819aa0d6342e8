// `maypole doctor`: what this machine offers and lacks, each with the remedy.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/doctor/network_checks.h"
#include "cli/doctor/system_checks.h"

namespace maypole::cli {
namespace {

struct DoctorFlags {
  std::string socket = "/run/maypole/agent.sock";
  std::string interface;
  bool as_json = false;
};

std::vector<Finding> Examine(const DoctorFlags& flags) {
  const std::string root;
  const std::vector<std::string> rdma = RdmaDevices(root);
  return {CheckUcx(UcxInfo("-v"), UcxInfo("-d")),
          CheckRdma(rdma),
          CheckMemlock(MemlockLimit(), !rdma.empty()),
          CheckOpenFiles(PermittedOpenFiles()),
          CheckMemfd(),
          CheckDevShm(),
          CheckHugePages(root),
          CheckGpu(root),
          CheckCores(UsableCores()),
          CheckCongestionControl(root),
          CheckExposure(flags.interface, InterfaceAddresses()),
          CheckAgentSocket(flags.socket)};
}

const char* NameOf(Level level) {
  switch (level) {
    case Level::kOk:
      return "OK";
    case Level::kWarn:
      return "WARN";
    case Level::kFail:
      return "FAIL";
  }
  return "?";
}

void PrintText(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    std::printf(
        "%-5s %-23s %s\n", NameOf(finding.level), finding.aspect.c_str(), finding.text.c_str());
    if (!finding.remedy.empty()) {
      std::printf("      %-23s -> %s\n", "", finding.remedy.c_str());
    }
  }
}

void PrintJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    checks.push_back({{"aspect", finding.aspect},
                      {"level", NameOf(finding.level)},
                      {"text", finding.text},
                      {"remedy", finding.remedy}});
  }
  std::printf("%s\n", nlohmann::ordered_json{{"checks", checks}}.dump(2).c_str());
}

int RunDoctor(const DoctorFlags& flags) {
  const std::vector<Finding> findings = Examine(flags);
  flags.as_json ? PrintJson(findings) : PrintText(findings);
  return std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.level == Level::kFail;
  });
}

}  // namespace

void AddDoctorCommand(CLI::App& app, int& exit_code) {
  const auto flags = std::make_shared<DoctorFlags>();
  CLI::App* command = app.add_subcommand(
      "doctor",
      "Check what this machine offers and lacks, with the remedy; exit code 1 if it fails");
  command->add_option("--socket", flags->socket, "The agent's socket")->capture_default_str();
  command->add_option("--interface", flags->interface, "The interface that the agent will use");
  command->add_flag("--json", flags->as_json, "Print JSON: checks[].{aspect,level,text,remedy}");
  command->callback([flags, &exit_code] { exit_code = RunDoctor(*flags); });
}

}  // namespace maypole::cli
