#include "cli/status_text.h"

#include <algorithm>
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

constexpr std::size_t kNodesNamed = 4;  // more are counted

std::string Age(double seconds) {
  if (seconds < 60) {
    return absl::StrFormat("%.1f s", seconds);
  }
  const auto minutes = static_cast<std::uint64_t>(seconds / 60);
  return minutes < 60 ? absl::StrCat(minutes, " min")
                      : absl::StrCat(minutes / 60, " h ", minutes % 60, " min");
}

// "rank 3", "ranks 1, 2".
template <typename Numbers>
std::string RanksText(const Numbers& ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

std::string NodesText(const v1::Status& status) {
  TextTable table({"NODE", "HOST", "PEERS", "STATE", "AGE", "VERSION", "OPS", "SENT", "RECEIVED"});
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
  std::string text = absl::StrFormat("\nJob %s: %s, ", job.job(), job.state());
  if (job.epoch() > 0) {  // none before the first
    absl::StrAppendFormat(&text, "epoch %u, ", job.epoch());
  }
  absl::StrAppendFormat(&text, "world size %u\n  %s\n", job.world_size(), job.reason());
  if (!job.missing_ranks().empty()) {
    absl::StrAppend(&text, "  missing: ", RanksText(job.missing_ranks()), "\n");
  }
  if (!job.members().empty()) {
    const char* separator = job.state() == "forming" ? "  joined: " : "  ring: ";
    for (const v1::EpochMember& member : job.members()) {
      absl::StrAppend(&text, separator, member.node(), " (", RanksText(member.ranks()), ")");
      separator = ", ";
    }
    absl::StrAppend(&text, "\n");
  }
  return text + TuningText(job);
}

// An op that waits, as all the nodes together tell it that say the same of it.
struct Waiting {
  const v1::WaitingOp* longest = nullptr;
  std::vector<std::string> nodes;
};

bool IsSame(const v1::WaitingOp& a, const v1::WaitingOp& b) {
  return a.job() == b.job() && a.op() == b.op() && a.occurrence() == b.occurrence() &&
         a.reason() == b.reason();
}

std::vector<Waiting> WaitingOf(const v1::Status& status) {
  std::vector<Waiting> waiting;
  for (const v1::NodeStatus& node : status.nodes()) {
    for (const v1::WaitingOp& op : node.report().waiting()) {
      auto known = std::find_if(waiting.begin(), waiting.end(), [&](const Waiting& other) {
        return IsSame(*other.longest, op);
      });
      if (known == waiting.end()) {
        known = waiting.insert(known, Waiting{&op, {}});
      }
      known->nodes.push_back(node.node());
      known->longest = op.seconds() > known->longest->seconds() ? &op : known->longest;
    }
  }
  return waiting;
}

std::string WaitingText(const v1::Status& status) {
  std::string text;
  for (const auto& [op, nodes] : WaitingOf(status)) {
    absl::StrAppendFormat(
        &text,
        "  op '%s' #%u of job %s has waited on %s for %s%s: %s\n",
        op->op(),
        op->occurrence(),
        op->job(),
        nodes.size() <= kNodesNamed ? absl::StrJoin(nodes, ", ") : Counted(nodes.size(), "node"),
        Age(op->seconds()),
        op->missing_ranks().empty() ? "" : ", " + RanksText(op->missing_ranks()) + " missing",
        op->reason());
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
