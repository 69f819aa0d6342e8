#include "cli/status_text.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include "cli/text_table.h"
#include "cli/tuning_text.h"
#include "proto/coordinator.pb.h"

namespace maypole::cli {
namespace {

std::string Age(double seconds) {
  if (seconds < 60) {
    return absl::StrFormat("%.1fs", seconds);
  }
  const auto minutes = static_cast<std::uint64_t>(seconds / 60);
  return minutes < 60 ? absl::StrCat(minutes, "min")
                      : absl::StrCat(minutes / 60, "h", minutes % 60, "min");
}

template <typename Numbers>
std::string List(const Numbers& numbers) {
  return numbers.empty() ? "-" : absl::StrJoin(numbers, ",");
}

std::string NodesText(const v1::Status& status) {
  TextTable table(
      {"NODE", "HOST", "PEERS", "STATE", "SINCE", "VERSION", "OPS", "SENT", "RECEIVED"});
  for (const v1::NodeStatus& node : status.nodes()) {
    table.AddRow(
        {node.node(),
         node.host(),
         node.data_endpoint(),
         node.attached() ? "attached" : "lost",
         Age(node.since_seconds()),
         node.version(),
         absl::StrCat(node.report().ops()),
         absl::StrFormat("%.3f GB", static_cast<double>(node.report().sent_bytes()) / 1e9),
         absl::StrFormat("%.3f GB", static_cast<double>(node.report().received_bytes()) / 1e9)});
  }
  return status.nodes().empty() ? "No agent has attached.\n" : table.ToString();
}

std::string JobText(const v1::JobStatus& job) {
  std::string text = absl::StrFormat("\nJob %s: %s, epoch %u, world size %u\n  %s\n",
                                     job.job(),
                                     job.state(),
                                     job.epoch(),
                                     job.world_size(),
                                     job.reason());
  if (!job.missing_ranks().empty()) {
    absl::StrAppend(&text, "  missing ranks: ", List(job.missing_ranks()), "\n");
  }
  if (!job.members().empty()) {
    absl::StrAppend(&text, "  ring:");
    for (const v1::EpochMember& member : job.members()) {
      absl::StrAppend(&text, " ", member.node(), "(ranks ", List(member.ranks()), ")");
    }
    absl::StrAppend(&text, "\n");
  }
  return text + TuningText(job);
}

std::string WaitingText(const v1::Status& status) {
  std::string text;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::WaitingOp& op : node.report().waiting()) {
      absl::StrAppendFormat(&text,
                            "  %s: op '%s' #%u of job %s waits for ranks %s since %s: %s\n",
                            node.node(),
                            op.op(),
                            op.occurrence(),
                            op.job(),
                            List(op.missing_ranks()),
                            Age(op.seconds()),
                            op.reason());
    }
  }
  return text.empty() ? "\nNothing waits.\n" : "\nWaiting:\n" + text;
}

}  // namespace

std::string StatusText(const v1::Status& status) {
  std::string text =
      absl::StrFormat("Coordinator %s, up %s\n\n", status.version(), Age(status.uptime_seconds()));
  text += NodesText(status) + LinksText(status);
  for (const v1::JobStatus& job : status.jobs()) {
    text += JobText(job);
  }
  if (status.jobs().empty()) {
    text += "\nNo job.\n";
  }
  return text + WaitingText(status);
}

}  // namespace maypole::cli
