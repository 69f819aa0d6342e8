// Membership's rules for links and tuning tables: when links are measured, and when a job that runs
// gets another table.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "server/membership.h"
#include "server/text.h"
#include "server/topology.h"

namespace maypole::server {
namespace {

// A row is fitted anew when so many reports in a row find it further off than this.
constexpr double kFarOff = 1.5;
constexpr std::uint32_t kReports = 2;
constexpr std::size_t kLearnedMax = 256;  // sets of nodes

std::set<std::string> NodesOf(const Job& job) {
  std::set<std::string> nodes;
  for (const auto& [rank, seat] : job.seats) {
    nodes.insert(seat.node);
  }
  return nodes;
}

bool IsSane(const collective::LinkModel& link) {
  const auto is_time = [](double seconds) { return std::isfinite(seconds) && seconds >= 0; };
  return is_time(link.latency_seconds) && is_time(link.message_seconds) &&
         std::isfinite(link.bytes_per_second) && link.bytes_per_second > 0;
}

// Rows that say something else, not only something about it.
std::size_t Differences(const collective::TuningTable& a, const collective::TuningTable& b) {
  if (a.rows.size() != b.rows.size()) {
    return std::max(a.rows.size(), b.rows.size());
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.rows.size(); ++i) {
    count +=
        a.rows[i].algorithm != b.rows[i].algorithm || a.rows[i].slice_bytes != b.rows[i].slice_bytes
            ? 1
            : 0;
  }
  return count;
}

}  // namespace

void Membership::Progress() {
  if (!options_.probe_links) {
    return;
  }
  for (const Survey::Probe& probe : survey_.Begin(now_)) {
    const auto tell = [&](const std::string& to, const std::string& peer, bool measures) {
      const Agent& agent = agents_.at(peer);
      actions_.push_back(SendProbe{.connection = ConnectionOf(to),
                                   .id = probe.id,
                                   .peer = {.node = peer,
                                            .incarnation = agent.incarnation,
                                            .host = agent.host,
                                            .data_address = agent.data_address,
                                            .ranks = {}},
                                   .measures = measures});
    };
    tell(probe.answers, probe.measures, false);
    tell(probe.measures, probe.answers, true);
  }
  for (auto& [name, job] : jobs_) {
    if (job.state == JobState::kForming && job.is_complete() && !WaitsForLinks(job)) {
      Form(job);
    }
  }
}

bool Membership::WaitsForLinks(const Job& job) const {
  return options_.probe_links && now_ - job.complete_since < options_.probe_patience &&
         survey_.IsPending(NodesOf(job));
}

std::map<std::string, Labels> Membership::LabelsOf(const Job& job) const {
  std::map<std::string, Labels> labels;
  for (const std::string& node : NodesOf(job)) {
    labels[node] = agents_.at(node).labels;
  }
  return labels;
}

collective::TuningTable Membership::TableFor(const Job& job,
                                             std::optional<collective::MeasuredLinks> links) const {
  return collective::MakeTuningTable(
      {.members = static_cast<std::uint32_t>(job.epoch.members.size()),
       .links = std::move(links),
       .has_levels = !job.epoch.levels.empty(),
       .rules = options_.rules,
       .corrections = job.learned});
}

void Membership::Retune(Job& job, const std::string& why) {
  std::vector<std::string> ring;
  for (const EpochMember& member : job.epoch.members) {
    ring.push_back(member.node);
  }
  std::optional<collective::MeasuredLinks> links = CostsOf(ring, job.epoch.levels, links_);
  if (!links) {
    return;
  }
  collective::TuningTable table = TableFor(job, std::move(links));
  table.version = job.epoch.tuning.version + 1;
  const std::size_t differences = Differences(table, job.epoch.tuning);
  job.epoch.tuning = std::move(table);
  job.measured.clear();
  job.wrong.clear();
  ++counters_.tables_published;
  for (const EpochMember& member : job.epoch.members) {
    actions_.push_back(
        SendTuning{ConnectionOf(member.node), job.epoch.job, job.epoch.token, job.epoch.tuning});
  }
  Log(LogLine::Level::kInfo,
      JobText(job.epoch.job) + ": tuning table " + std::to_string(job.epoch.tuning.version) + ", " +
          std::to_string(differences) + " rows choose otherwise: " + why);
}

void Membership::On(const LinkMeasured& event) {
  const std::string* node = NodeOf(event.connection);
  if (node == nullptr) {
    return;
  }
  const bool is_usable = event.result != Survey::Result::kOk || IsSane(event.link);
  const Survey::Result result = is_usable ? event.result : Survey::Result::kFailed;
  const std::optional<LinkTable::Pair> pair = survey_.End(event.id, *node, result, now_);
  if (!pair) {
    return;
  }
  if (result == Survey::Result::kFailed) {
    Log(LogLine::Level::kWarning,
        "the link between " + NodeText(pair->first) + " and " + NodeText(pair->second) +
            " could not be measured");
  }
  if (result != Survey::Result::kOk) {
    return;
  }
  links_.Set(
      pair->first, pair->second, {.model = event.link, .samples = event.samples, .measured = now_});
  ++counters_.links_measured;
  for (auto& [name, job] : jobs_) {
    const std::set<std::string> nodes = NodesOf(job);
    if (job.state == JobState::kRunning && nodes.contains(pair->first) &&
        nodes.contains(pair->second) && !survey_.IsPending(nodes)) {
      Retune(job, "its links were measured");
    }
  }
}

// The row's prediction holds what was learned before, so factors multiply.
void Membership::Learn(Job& job, const collective::TuningRow& row, double ratio) {
  const double before =
      collective::CorrectionFor(job.learned, row.collective, row.algorithm, row.seconds_at);
  std::erase_if(job.learned, [&](const collective::Correction& known) {
    return known.collective == row.collective && known.algorithm == row.algorithm &&
           known.bytes == row.seconds_at;
  });
  job.learned.push_back({.collective = row.collective,
                         .algorithm = row.algorithm,
                         .bytes = row.seconds_at,
                         .factor = before * ratio});
  if (learned_.size() >= kLearnedMax) {
    learned_.clear();
  }
  learned_[NodesOf(job)] = job.learned;
}

void Membership::Recall(Job& job) const {
  const auto known = learned_.find(NodesOf(job));
  job.learned = known == learned_.end() ? std::vector<collective::Correction>() : known->second;
}

void Membership::Unlearn(const std::string& node) {
  std::erase_if(learned_, [&](const auto& entry) { return entry.first.contains(node); });
}

void Membership::On(const LinksWanted&) {
  survey_.ForgetAll();
  learned_.clear();
}

void Membership::On(const RowsMeasured& event) {
  const std::string* node = NodeOf(event.connection);
  const auto found = jobs_.find(event.job);
  if (node == nullptr || found == jobs_.end() || found->second.state != JobState::kRunning) {
    return;
  }
  Job& job = found->second;
  const collective::TuningTable& table = job.epoch.tuning;
  // The first member decides for all, so it also tells for all.
  if (job.epoch.token != event.token || table.version != event.version ||
      job.epoch.members.front().node != *node) {
    return;
  }
  std::string why;
  for (const RowMeasured& measured : event.rows) {
    if (measured.row >= table.rows.size() || !std::isfinite(measured.ratio) ||
        measured.ratio <= 0 || measured.ops == 0) {
      continue;
    }
    RowMeasured& known = job.measured[measured.row];
    known = {.row = measured.row, .ops = known.ops + measured.ops, .ratio = measured.ratio};
    const bool is_far = measured.ratio > kFarOff || measured.ratio < 1 / kFarOff;
    std::uint32_t& wrong = job.wrong[measured.row];
    wrong = is_far ? wrong + 1 : 0;
    if (wrong < kReports) {
      continue;
    }
    const collective::TuningRow& row = table.rows[measured.row];
    Learn(job, row, measured.ratio);
    why += std::string(why.empty() ? "" : ", ") + std::string(Name(row.algorithm)) + " from " +
           std::to_string(row.bytes_begin) + " bytes took " +
           std::to_string(measured.ratio).substr(0, 4) + " times as long as predicted";
  }
  if (!why.empty()) {
    Retune(job, why);
  }
}

}  // namespace maypole::server
