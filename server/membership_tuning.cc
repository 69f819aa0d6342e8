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

// A row that was measured is measured anew, and its rivals with it, when it stays further off than
// this for so many reports; twice as many each time, so that a load that comes and goes settles.
constexpr double kFarOff = 1.5;
constexpr std::uint32_t kReports = 2;
constexpr std::uint32_t kDoublingsMax = 8;
constexpr std::size_t kLearnedMax = 256;  // sets of nodes

std::set<std::string> NodesOf(const Job& job) {
  std::set<std::string> nodes;
  for (const auto& [rank, seat] : job.seats) {
    nodes.insert(seat.node);
  }
  return nodes;
}

// Costs made of such links are finite, so that one of them is the least.
bool IsSane(const collective::LinkModel& link) {
  const auto is_time = [](double seconds) { return seconds >= 0 && seconds <= 60; };
  return is_time(link.latency_seconds) && is_time(link.message_seconds) &&
         link.bytes_per_second >= 1e3 && link.bytes_per_second <= 1e13;
}

void Replace(Job& job, collective::TuningTable table) {
  std::erase_if(job.news, [&](const auto& entry) {
    return !IsSameRow(job.epoch.tuning, table, entry.first);
  });
  job.epoch.tuning = std::move(table);
}

}  // namespace

void Membership::Progress() {
  if (!options_.probe_links) {
    return;
  }
  for (const Survey::Probe& probe : survey_.Begin(now_)) {
    const auto tell = [&](const std::string& to, const std::string& peer, bool measures) {
      const Agent& agent = agents_.at(peer);
      actions_.push_back(
          SendProbe{.connection = ConnectionOf(to),
                    .id = probe.id,
                    .peer = {.node = peer,
                             .incarnation = agent.incarnation,
                             .host = agent.host,
                             .data_address = agent.data_address,
                             .ranks = {},
                             .generation = std::max(agent.generation, agents_.at(to).generation)},
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

// Most pairs of a large cluster never meet, those of a job should.
void Membership::WantLinks(const Job& job) {
  if (options_.probe_links) {
    survey_.Prefer(NodesOf(job));
  }
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

std::optional<collective::MeasuredLinks> Membership::LinksOf(const Job& job) const {
  std::vector<std::string> ring;
  for (const EpochMember& member : job.epoch.members) {
    ring.push_back(member.node);
  }
  return CostsOf(ring, job.epoch.levels, links_);
}

void Membership::Retune(Job& job, collective::MeasuredLinks links, const std::string& why) {
  job.level_costs = links.levels;
  collective::TuningTable table = TableFor(job, std::move(links));
  table.version = job.epoch.tuning.version + 1;
  Replace(job, std::move(table));
  ++counters_.tables_published;
  for (const EpochMember& member : job.epoch.members) {
    actions_.push_back(
        SendTuning{ConnectionOf(member.node), job.epoch.job, job.epoch.token, job.epoch.tuning});
  }
  Log(LogLine::Level::kInfo,
      JobText(job.epoch.job) + ": tuning table " + std::to_string(job.epoch.tuning.version) + ": " +
          why);
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
    Reconnect(pair->first);
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
      if (auto links = LinksOf(job)) {
        Retune(job, *std::move(links), "its links were measured");
      }
    }
  }
}

void Membership::Learn(Job& job, const collective::Correction& measured, bool is_changed) {
  std::erase_if(job.learned, [&](const collective::Correction& known) {
    return known.collective == measured.collective && known.bytes == measured.bytes &&
           (is_changed || known.algorithm == measured.algorithm);
  });
  job.learned.push_back(measured);
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
  for (const auto& [name, job] : jobs_) {
    WantLinks(job);
  }
  learned_.clear();
  for (auto& [name, job] : jobs_) {
    job.learned.clear();
  }
}

// An op takes as long as at the member where it takes longest: who sends only, or is the root of a
// tree, is done early. So a row has news once all members have told.
std::optional<RowMeasured> Membership::Gather(Job& job,
                                              const std::string& node,
                                              const RowMeasured& told) {
  RowNews& news = job.news[told.row];
  news.waiting[node] = told;
  if (news.waiting.size() < job.epoch.members.size()) {
    return std::nullopt;
  }
  RowMeasured slowest = told;
  for (const auto& [member, measured] : std::exchange(news.waiting, {})) {
    slowest = measured.ratio > slowest.ratio ? measured : slowest;
  }
  const std::uint32_t before = news.measured ? news.measured->ops : 0;
  news.measured = RowMeasured{told.row, before + slowest.ops, slowest.ratio};
  return slowest;
}

// What there is to learn from a row's news, in words; empty if nothing.
std::string Membership::Judge(Job& job,
                              const collective::MeasuredLinks& links,
                              const RowMeasured& measured) {
  const collective::TuningRow& row = job.epoch.tuning.rows[measured.row];
  if (row.seconds <= 0) {
    return "";
  }
  RowNews& news = job.news[measured.row];
  const collective::Correction* known = collective::MeasuredIn(job.learned, row, row.algorithm);
  const bool is_trial = known == nullptr || known->visits < collective::kVisits;
  const bool is_far = measured.ratio > kFarOff || measured.ratio < 1 / kFarOff;
  news.far_off = is_far ? news.far_off + 1 : 0;
  std::uint32_t& changes = job.changes[measured.row];
  const bool is_changed = !is_trial && news.far_off >= kReports << std::min(changes, kDoublingsMax);
  if (!is_trial && !is_changed) {
    return "";
  }
  changes += is_changed ? 1 : 0;
  news.far_off = 0;
  const auto members = static_cast<std::uint32_t>(job.epoch.members.size());
  collective::Correction correction = {
      .collective = row.collective,
      .algorithm = row.algorithm,
      .bytes = row.seconds_at,
      .factor = measured.ratio * row.seconds / collective::FormulaSeconds(links, members, row)};
  if (is_trial && known != nullptr) {
    correction.factor = std::min(correction.factor, known->factor);  // load only adds
    correction.visits = known->visits + 1;
  }
  Learn(job, correction, is_changed);
  return std::string(Name(row.collective)) + " by " + std::string(Name(row.algorithm)) + " from " +
         std::to_string(row.bytes_begin) + " bytes took " +
         std::to_string(measured.ratio).substr(0, 4) + " times as long as predicted";
}

void Membership::On(const RowsMeasured& event) {
  const std::string* node = NodeOf(event.connection);
  const auto found = jobs_.find(event.job);
  if (node == nullptr || found == jobs_.end() || found->second.state != JobState::kRunning) {
    return;
  }
  Job& job = found->second;
  const std::vector<EpochMember>& members = job.epoch.members;
  const bool is_member =
      std::any_of(members.begin(), members.end(), [&](const EpochMember& member) {
        return member.node == *node;
      });
  if (!is_member || job.epoch.token != event.token || job.epoch.tuning.version != event.version) {
    return;
  }
  std::optional<collective::MeasuredLinks> links;  // found when a row was told by all
  std::string why;
  for (const RowMeasured& told : event.rows) {
    if (told.row >= job.epoch.tuning.rows.size() || !std::isfinite(told.ratio) || told.ratio <= 0 ||
        told.ops == 0) {
      continue;
    }
    const std::optional<RowMeasured> measured = Gather(job, *node, told);
    if (measured && !links) {
      links = LinksOf(job);
    }
    if (measured && links) {
      const std::string news = Judge(job, *links, *measured);
      why += (why.empty() || news.empty() ? "" : ", ") + news;
    }
  }
  if (!why.empty()) {
    Retune(job, *std::move(links), why);
  }
}

}  // namespace maypole::server
