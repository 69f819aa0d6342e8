#include "server/messages.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "proto/control.h"
#include "proto/coordinator.pb.h"
#include "proto/text.h"
#include "proto/tuning_messages.h"

namespace maypole::server {
namespace {

std::string Cut(const std::string& text) {
  return std::string(CutUtf8(text, kControlTextBytesMax));
}

double SecondsOf(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Of a foreign number: at most a year, and 0 for what is none.
Duration DurationOf(double seconds) {
  constexpr double kSecondsMax = 365 * 24 * 3600;
  return seconds > 0 ? std::chrono::duration_cast<Duration>(
                           std::chrono::duration<double>(std::min(seconds, kSecondsMax)))
                     : Duration(0);
}

// Levels and a table that cannot be are left out: Membership never sees them.
EpochInfo EpochOf(const v1::Epoch& message) {
  EpochInfo epoch{.job = message.job(),
                  .token = JobToken(message.token()),
                  .epoch = Epoch(message.epoch()),
                  .world_size = message.world_size(),
                  .members = {},
                  .reason = Cut(message.reason()),
                  .levels = ReadLevels(message).value_or(std::vector<collective::Level>()),
                  .tuning = ReadTuning(message.tuning()).value_or(collective::TuningTable())};
  for (const v1::EpochMember& in : message.members()) {
    EpochMember& member = epoch.members.emplace_back();
    member.node = in.node();
    member.incarnation = in.incarnation();
    member.host = Cut(in.host());
    member.data_address = in.data_address();
    member.generation = in.generation();
    for (std::uint32_t rank : in.ranks()) {
      member.ranks.emplace_back(rank);
    }
  }
  return epoch;
}

void FillMember(const EpochMember& member, v1::EpochMember& out) {
  out.set_node(member.node);
  out.set_incarnation(member.incarnation);
  out.set_host(member.host);
  out.set_data_address(member.data_address);
  out.set_generation(member.generation);
  for (Rank rank : member.ranks) {
    out.add_ranks(rank.value());
  }
}

void FillEpoch(const EpochInfo& epoch, v1::Epoch& out) {
  out.set_job(epoch.job);
  out.set_token(epoch.token.value());
  out.set_epoch(epoch.epoch.value());
  out.set_world_size(epoch.world_size);
  out.set_reason(epoch.reason);
  FillLevels(epoch.levels, out);
  FillTuning(epoch.tuning, *out.mutable_tuning());
  for (const EpochMember& member : epoch.members) {
    FillMember(member, *out.add_members());
  }
}

Event AttachedEvent(const v1::AgentHello& hello, ConnectionId connection) {
  AgentAttached event{.connection = connection,
                      .node = Cut(hello.node()),
                      .incarnation = hello.incarnation(),
                      .host = Cut(hello.host()),
                      .data_address = hello.data_address(),
                      .data_endpoint = Cut(hello.data_endpoint()),
                      .version = Cut(hello.version()),
                      .protocol = hello.protocol(),
                      .epochs = {},
                      .labels = {}};
  for (const v1::Epoch& epoch : hello.epochs()) {
    event.epochs.push_back(EpochOf(epoch));
  }
  for (const v1::Label& label : hello.labels()) {
    event.labels.emplace_back(Cut(label.key()), Cut(label.value()));
  }
  return event;
}

Event MeasuredEvent(const v1::LinkMeasured& link, ConnectionId connection) {
  return LinkMeasured{.connection = connection,
                      .id = link.id(),
                      .result = link.result() == "ok"     ? Survey::Result::kOk
                                : link.result() == "busy" ? Survey::Result::kBusy
                                                          : Survey::Result::kFailed,
                      .link = {.latency_seconds = link.latency_seconds(),
                               .bytes_per_second = link.bytes_per_second(),
                               .message_seconds = link.message_seconds()},
                      .samples = link.samples()};
}

Event RowsEvent(const v1::RowsMeasured& rows, ConnectionId connection) {
  RowsMeasured event{.connection = connection,
                     .job = rows.job(),
                     .token = JobToken(rows.token()),
                     .version = rows.version(),
                     .rows = {}};
  for (const v1::RowMeasured& row : rows.rows()) {
    event.rows.push_back({.row = row.row(), .ops = row.ops(), .ratio = row.ratio()});
  }
  return event;
}

void FillLink(const LinkView& link, v1::LinkStatus& out) {
  out.set_node_a(link.a);
  out.set_node_b(link.b);
  out.set_latency_seconds(link.model.latency_seconds);
  out.set_bytes_per_second(link.model.bytes_per_second);
  out.set_message_seconds(link.model.message_seconds);
  out.set_samples(link.samples);
  out.set_since_seconds(SecondsOf(link.since));
}

struct Fillers {
  const std::string& version;
  v1::CoordinatorMessage& message;

  std::optional<Outgoing> operator()(const SendWelcome& action) const {
    message.mutable_welcome()->set_version(version);
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const RefuseAgent& action) const {
    message.mutable_refused()->set_text(Cut(action.text));
    return Outgoing{.connection = action.connection, .is_last = true};
  }

  std::optional<Outgoing> operator()(const CloseConnection&) const { return std::nullopt; }

  std::optional<Outgoing> operator()(const RefuseJoin& action) const {
    message.mutable_join_refused()->set_job(action.job);
    message.mutable_join_refused()->set_rank(action.rank.value());
    message.mutable_join_refused()->set_text(Cut(action.text));
    message.mutable_join_refused()->set_timed_out(action.timed_out);
    message.mutable_join_refused()->set_culprits(Cut(action.culprits));
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const SendEpoch& action) const {
    FillEpoch(action.epoch, *message.mutable_epoch());
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const SendTuning& action) const {
    message.mutable_tuning()->set_job(action.job);
    message.mutable_tuning()->set_token(action.token.value());
    FillTuning(action.tuning, *message.mutable_tuning()->mutable_tuning());
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const SendProbe& action) const {
    message.mutable_probe()->set_id(action.id);
    message.mutable_probe()->set_node(action.peer.node);
    message.mutable_probe()->set_incarnation(action.peer.incarnation);
    message.mutable_probe()->set_data_address(action.peer.data_address);
    message.mutable_probe()->set_measures(action.measures);
    message.mutable_probe()->set_generation(action.peer.generation);
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const SendJobFailed& action) const {
    message.mutable_job_failed()->set_job(action.job);
    message.mutable_job_failed()->set_token(action.token.value());
    message.mutable_job_failed()->set_text(Cut(action.text));
    message.mutable_job_failed()->set_culprits(Cut(action.culprits));
    return Outgoing{.connection = action.connection};
  }

  std::optional<Outgoing> operator()(const LogLine&) const { return std::nullopt; }
};

}  // namespace

std::optional<Event> ToEvent(const v1::AgentMessage& message, ConnectionId connection) {
  switch (message.message_case()) {
    case v1::AgentMessage::kHello:
      return AttachedEvent(message.hello(), connection);
    case v1::AgentMessage::kJoin:
      return RankJoins{.connection = connection,
                       .job = message.join().job(),
                       .rank = Rank(message.join().rank()),
                       .world_size = message.join().world_size(),
                       .timeout = DurationOf(message.join().timeout_seconds())};
    case v1::AgentMessage::kLeave:
      return RankLeaves{.connection = connection,
                        .job = message.leave().job(),
                        .token = JobToken(message.leave().token()),
                        .rank = Rank(message.leave().rank()),
                        .died = message.leave().died(),
                        .reason = Cut(message.leave().reason())};
    case v1::AgentMessage::kFailure:
      return FailureReported{.connection = connection,
                             .job = message.failure().job(),
                             .token = JobToken(message.failure().token()),
                             .epoch = Epoch(message.failure().epoch()),
                             .text = Cut(message.failure().text()),
                             .culprits = Cut(message.failure().culprits())};
    case v1::AgentMessage::kLink:
      return MeasuredEvent(message.link(), connection);
    case v1::AgentMessage::kRows:
      return RowsEvent(message.rows(), connection);
    case v1::AgentMessage::kReport:
    case v1::AgentMessage::MESSAGE_NOT_SET:
      break;
  }
  return std::nullopt;
}

std::optional<Outgoing> ToMessage(const Action& action,
                                  const std::string& version,
                                  v1::CoordinatorMessage& message) {
  message.Clear();
  return std::visit(Fillers{version, message}, action);
}

void FillStatus(const Snapshot& snapshot, v1::Status& status) {
  for (const NodeView& node : snapshot.nodes) {
    v1::NodeStatus& out = *status.add_nodes();
    out.set_node(node.node);
    out.set_host(node.host);
    out.set_data_endpoint(node.data_endpoint);
    out.set_version(node.version);
    out.set_attached(node.connection != 0);
    out.set_since_seconds(SecondsOf(node.since));
    for (const auto& [key, value] : node.labels) {
      v1::Label& label = *out.add_labels();
      label.set_key(key);
      label.set_value(value);
    }
  }
  for (const LinkView& link : snapshot.links) {
    FillLink(link, *status.add_links());
  }
  for (const JobView& job : snapshot.jobs) {
    v1::JobStatus& out = *status.add_jobs();
    out.set_job(job.epoch.job);
    out.set_state(Name(job.state));
    out.set_epoch(job.epoch.epoch.value());
    out.set_world_size(job.epoch.world_size);
    out.set_reason(job.reason);
    out.set_since_seconds(SecondsOf(job.since));
    for (const EpochMember& member : job.epoch.members) {
      FillMember(member, *out.add_members());
    }
    for (Rank rank : job.missing_ranks) {
      out.add_missing_ranks(rank.value());
    }
    FillLevels(job.epoch.levels, out);
    for (std::size_t i = 0; i < job.level_costs.size(); ++i) {
      const collective::LinkModel& link = job.level_costs[i].link;
      v1::Level& level = *out.mutable_levels(static_cast<int>(i));
      level.set_latency_seconds(link.latency_seconds);
      level.set_bytes_per_second(link.bytes_per_second);
      level.set_message_seconds(link.message_seconds);
    }
    FillTuning(job.epoch.tuning, *out.mutable_tuning());
    for (const RowMeasured& measured : job.measured) {
      v1::RowMeasured& row = *out.add_measured();
      row.set_row(measured.row);
      row.set_ops(measured.ops);
      row.set_ratio(measured.ratio);
    }
  }
}

}  // namespace maypole::server
