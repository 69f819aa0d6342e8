#include "agent/control/control_messages.h"

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "proto/control.h"
#include "proto/coordinator.pb.h"
#include "proto/handshake.h"
#include "proto/text.h"
#include "proto/tuning_messages.h"

namespace maypole::agent {
namespace {

std::string Clean(std::string_view text, std::size_t bytes_max = kControlTextBytesMax) {
  std::string clean;
  text = CutUtf8(text, bytes_max);
  while (!text.empty()) {
    const std::size_t bytes = std::max<std::size_t>(Utf8CharacterBytes(text), 1);
    const std::string_view character = text.substr(0, bytes);
    clean.append(IsPrintableUtf8(character) ? character : "?");
    text.remove_prefix(bytes);
  }
  return clean;
}

void Fill(const EpochInfo& info, v1::Epoch& epoch) {
  epoch.set_job(Clean(info.job));
  epoch.set_token(info.token.value());
  epoch.set_epoch(info.epoch.value());
  epoch.set_world_size(info.world_size);
  epoch.set_reason(Clean(info.reason));
  FillLevels(info.levels, epoch);
  FillTuning(info.tuning, *epoch.mutable_tuning());
  for (const EpochMember& member : info.members) {
    v1::EpochMember& out = *epoch.add_members();
    out.set_node(Clean(member.node));
    out.set_incarnation(member.incarnation);
    out.set_host(Clean(member.host));
    out.set_data_address(member.data_address);
    out.set_generation(member.generation);
    for (Rank rank : member.ranks) {
      out.add_ranks(rank.value());
    }
  }
}

absl::Status Invalid(const v1::Epoch& epoch, const std::string& what) {
  return absl::InvalidArgumentError("epoch " + std::to_string(epoch.epoch()) + " of job \"" +
                                    Clean(epoch.job()) + "\": " + what);
}

absl::Status CheckHead(const v1::Epoch& epoch) {
  if (epoch.job().empty() || epoch.job().size() > kJobNameBytesMax ||
      !IsPrintableUtf8(epoch.job())) {
    return Invalid(epoch, "the job's name is not allowed");
  }
  if (epoch.token() == 0 || epoch.epoch() == 0) {
    return Invalid(epoch, "token or epoch is 0");
  }
  if (epoch.world_size() == 0 || epoch.world_size() > kWorldSizeMax) {
    return Invalid(epoch, "world size " + std::to_string(epoch.world_size()) + " is out of range");
  }
  if (static_cast<std::uint32_t>(epoch.members_size()) > epoch.world_size()) {
    return Invalid(epoch,
                   std::to_string(epoch.members_size()) + " members for " +
                       std::to_string(epoch.world_size()) + " ranks");
  }
  return absl::OkStatus();
}

// Every rank of 0 .. world_size-1 exactly once, ascending within a member.
absl::Status CheckRanks(const v1::Epoch& epoch) {
  std::vector<bool> seen(epoch.world_size(), false);
  std::uint32_t count = 0;
  for (const v1::EpochMember& member : epoch.members()) {
    if (member.ranks().empty()) {
      return Invalid(epoch, "member " + member.node() + " has no rank");
    }
    std::int64_t last = -1;
    for (std::uint32_t rank : member.ranks()) {
      if (rank >= epoch.world_size() || seen[rank] || rank <= last) {
        return Invalid(epoch,
                       "rank " + std::to_string(rank) + " of member " + member.node() +
                           " is out of range, double or out of order");
      }
      seen[rank] = true;
      last = rank;
      ++count;
    }
  }
  if (count != epoch.world_size()) {
    return Invalid(epoch,
                   "only " + std::to_string(count) + " of " + std::to_string(epoch.world_size()) +
                       " ranks have a member");
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const v1::Epoch& epoch, const CoordinatorClientOptions& self) {
  std::unordered_set<std::string> nodes;
  bool has_self = false;
  for (const v1::EpochMember& member : epoch.members()) {
    if (member.node().empty() || !nodes.insert(member.node()).second) {
      return Invalid(epoch, "node \"" + member.node() + "\" is empty or double");
    }
    has_self |= member.node() == self.node && member.incarnation() == self.incarnation;
  }
  return has_self ? absl::OkStatus() : Invalid(epoch, "this agent is not among its members");
}

absl::StatusOr<ControlEvent> EpochEvent(const v1::Epoch& epoch,
                                        const CoordinatorClientOptions& self) {
  for (const absl::Status& status : {CheckHead(epoch), CheckNodes(epoch, self)}) {
    if (!status.ok()) {
      return status;
    }
  }
  if (absl::Status status = CheckRanks(epoch); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::vector<collective::Level>> levels = ReadLevels(epoch);
  if (!levels.ok()) {
    return Invalid(epoch, std::string(levels.status().message()));
  }
  absl::StatusOr<collective::TuningTable> tuning = ReadTuning(epoch.tuning());
  if (!tuning.ok()) {
    return Invalid(epoch, std::string(tuning.status().message()));
  }
  EpochInfo info{.job = epoch.job(),
                 .token = JobToken(epoch.token()),
                 .epoch = Epoch(epoch.epoch()),
                 .world_size = epoch.world_size(),
                 .members = {},
                 .reason = Clean(epoch.reason()),
                 .levels = *std::move(levels),
                 .tuning = *std::move(tuning)};
  for (const v1::EpochMember& member : epoch.members()) {
    EpochMember& out = info.members.emplace_back();
    out.node = member.node();
    out.incarnation = member.incarnation();
    out.host = Clean(member.host());
    out.data_address = member.data_address();
    out.generation = member.generation();
    for (std::uint32_t rank : member.ranks()) {
      out.ranks.emplace_back(rank);
    }
  }
  return ControlEvent(std::move(info));
}

struct Fillers {
  v1::AgentMessage& out;

  void operator()(const JoinRank& join) const {
    out.mutable_join()->set_job(Clean(join.job));
    out.mutable_join()->set_rank(join.rank.value());
    out.mutable_join()->set_world_size(join.world_size);
    out.mutable_join()->set_timeout_seconds(std::chrono::duration<double>(join.timeout).count());
  }

  void operator()(const LeaveRank& leave) const {
    v1::LeaveRank& message = *out.mutable_leave();
    message.set_job(Clean(leave.job));
    message.set_token(leave.token.value());
    message.set_rank(leave.rank.value());
    message.set_died(leave.died);
    message.set_reason(Clean(leave.reason));
  }

  void operator()(const FailureReport& failure) const {
    v1::FailureReport& message = *out.mutable_failure();
    message.set_job(Clean(failure.job));
    message.set_token(failure.token.value());
    message.set_epoch(failure.epoch.value());
    message.set_text(Clean(failure.text));
    message.set_culprits(Clean(failure.culprits));
  }

  void operator()(const RowsMeasured& measured) const {
    v1::RowsMeasured& message = *out.mutable_rows();
    message.set_job(Clean(measured.job));
    message.set_token(measured.token.value());
    message.set_version(measured.version);
    for (const RowMeasured& row : measured.rows) {
      v1::RowMeasured& filled = *message.add_rows();
      filled.set_row(row.row);
      filled.set_ops(row.ops);
      filled.set_ratio(row.ratio);
    }
  }

  void operator()(const LinkMeasured& measured) const {
    v1::LinkMeasured& message = *out.mutable_link();
    message.set_id(measured.id);
    message.set_result(measured.result == LinkMeasured::Result::kOk     ? "ok"
                       : measured.result == LinkMeasured::Result::kBusy ? "busy"
                                                                        : "failed");
    message.set_latency_seconds(measured.link.latency_seconds);
    message.set_bytes_per_second(measured.link.bytes_per_second);
    message.set_message_seconds(measured.link.message_seconds);
    message.set_samples(measured.samples);
  }
};

}  // namespace

v1::AgentMessage HelloMessage(const CoordinatorClientOptions& options,
                              const std::vector<EpochInfo>& epochs) {
  v1::AgentMessage message;
  v1::AgentHello& hello = *message.mutable_hello();
  hello.set_node(Clean(options.node));
  hello.set_incarnation(options.incarnation);
  hello.set_host(Clean(options.host));
  hello.set_data_address(options.data_address);
  hello.set_data_endpoint(Clean(options.data_endpoint));
  hello.set_version(Clean(options.version));
  hello.set_protocol(kControlProtocol);
  for (const auto& [key, value] : options.labels) {
    v1::Label& label = *hello.add_labels();
    label.set_key(Clean(key));
    label.set_value(Clean(value));
  }
  for (const EpochInfo& epoch : epochs) {
    Fill(epoch, *hello.add_epochs());
  }
  return message;
}

v1::AgentMessage ToMessage(const ControlMessage& message) {
  v1::AgentMessage out;
  std::visit(Fillers{out}, message);
  return out;
}

v1::AgentMessage ToMessage(const AgentReport& report) {
  v1::AgentMessage message;
  v1::AgentReport& out = *message.mutable_report();
  out.set_ops(report.ops);
  out.set_sent_bytes(report.sent_bytes);
  out.set_received_bytes(report.received_bytes);
  for (const WaitingOp& op : report.waiting) {
    v1::WaitingOp& waiting = *out.add_waiting();
    waiting.set_job(Clean(op.job));
    waiting.set_op(Clean(op.op));
    waiting.set_occurrence(op.occurrence);
    waiting.set_seconds(std::chrono::duration<double>(op.waited).count());
    waiting.set_reason(Clean(op.reason));
    for (Rank rank : op.missing_ranks) {
      waiting.add_missing_ranks(rank.value());
    }
  }
  return message;
}

absl::StatusOr<ControlEvent> ToEvent(const v1::CoordinatorMessage& message,
                                     const CoordinatorClientOptions& self) {
  switch (message.message_case()) {
    case v1::CoordinatorMessage::kWelcome:
      return ControlEvent(CoordinatorLink{.up = true,
                                          .text = "attached to the coordinator at " +
                                                  self.coordinator + " (version " +
                                                  Clean(message.welcome().version(), 64) + ")"});
    case v1::CoordinatorMessage::kRefused:
      return ControlEvent(AgentRefused{Clean(message.refused().text())});
    case v1::CoordinatorMessage::kJoinRefused:
      return ControlEvent(JoinRefused{.job = message.join_refused().job(),
                                      .rank = Rank(message.join_refused().rank()),
                                      .text = Clean(message.join_refused().text()),
                                      .timed_out = message.join_refused().timed_out(),
                                      .culprits = Clean(message.join_refused().culprits())});
    case v1::CoordinatorMessage::kEpoch:
      return EpochEvent(message.epoch(), self);
    case v1::CoordinatorMessage::kTuning: {
      absl::StatusOr<collective::TuningTable> tuning = ReadTuning(message.tuning().tuning());
      if (!tuning.ok()) {
        return tuning.status();
      }
      return ControlEvent(TuningChanged{.job = message.tuning().job(),
                                        .token = JobToken(message.tuning().token()),
                                        .tuning = *std::move(tuning)});
    }
    case v1::CoordinatorMessage::kProbe:
      return ControlEvent(ProbeLink{.id = message.probe().id(),
                                    .peer = {.node = message.probe().node(),
                                             .incarnation = message.probe().incarnation(),
                                             .host = {},
                                             .data_address = message.probe().data_address(),
                                             .ranks = {},
                                             .generation = message.probe().generation()},
                                    .measures = message.probe().measures()});
    case v1::CoordinatorMessage::kJobFailed:
      return ControlEvent(JobFailed{.job = message.job_failed().job(),
                                    .token = JobToken(message.job_failed().token()),
                                    .text = Clean(message.job_failed().text()),
                                    .culprits = Clean(message.job_failed().culprits())});
    case v1::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message of a kind that this release does not know");
}

}  // namespace maypole::agent
