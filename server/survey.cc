#include "server/survey.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "common/check.h"

namespace maypole::server {
namespace {

// An agent ends a probe by itself long before.
constexpr Duration kProbeLimit = std::chrono::seconds(6);
constexpr Duration kBusyFirst = std::chrono::milliseconds(250);
constexpr std::uint32_t kBusyDoublings = 7;  // up to 32 s
// Orders below are of preferred pairs.
constexpr std::uint32_t kTournament = kRoundsMax;
constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max();

// visit(round, i, j) for the meetings of `count` players, at most kRoundsMax each.
template <typename Visit>
void ForEachMeeting(std::size_t count, const Visit& visit) {
  const std::size_t places = count + count % 2;  // the last may stay empty
  const std::size_t moving = places == 0 ? 0 : places - 1;
  for (std::size_t round = 0; round < std::min(moving, kRoundsMax); ++round) {
    for (std::size_t i = 0; i < places / 2; ++i) {
      const std::size_t a = i == 0 ? places - 1 : (round + i) % moving;
      const std::size_t b = i == 0 ? round : (round + moving - i) % moving;
      if (a < count && b < count) {
        visit(static_cast<std::uint32_t>(round), a, b);
      }
    }
  }
}

}  // namespace

Survey::Id Survey::IdOf(const std::string& node) {
  const auto known = ids_.find(node);
  if (known != ids_.end()) {
    return known->second;
  }
  if (forgotten_.empty()) {
    forgotten_.push_back(static_cast<Id>(nodes_.size()));
    nodes_.emplace_back();
  }
  const Id id = forgotten_.back();
  forgotten_.pop_back();
  nodes_[id].name = node;
  ids_.emplace(node, id);
  return id;
}

// By name.
std::vector<Survey::Id> Survey::Here(const std::set<std::string>& nodes) const {
  std::vector<Id> here;
  for (const std::string& node : nodes) {
    const auto known = ids_.find(node);
    if (known != ids_.end() && nodes_[known->second].is_here) {
      here.push_back(known->second);
    }
  }
  return here;
}

void Survey::Add(const std::string& node) {
  const Id id = IdOf(node);
  if (!std::exchange(nodes_[id].is_here, true)) {
    ++here_;
    changed_ = true;
    freed_.insert(id);
  }
}

void Survey::Remove(const std::string& node) {
  const Id id = IdOf(node);
  if (!std::exchange(nodes_[id].is_here, false)) {
    return;
  }
  --here_;
  changed_ = true;
  if (nodes_[id].probe != 0) {
    Finish(running_.find(nodes_[id].probe));
  }
}

void Survey::Forget(const std::string& node) {
  const auto known = ids_.find(node);
  if (known == ids_.end()) {
    return;
  }
  const Id id = known->second;
  MAYPOLE_CHECK(!nodes_[id].is_here && nodes_[id].probe == 0);
  for (const Id other : nodes_[id].met) {
    nodes_[other].met.erase(id);
  }
  for (const auto& [other, meeting] : nodes_[id].awaits) {
    nodes_[other].awaits.erase(id);
  }
  nodes_[id] = {};
  ids_.erase(known);
  forgotten_.push_back(id);
  changed_ = true;
}

void Survey::ForgetAll() {
  for (Node& node : nodes_) {
    node.met.clear();
  }
  changed_ = true;
}

bool Survey::MayMeet(Id a, Id b) const {
  const bool in_one_probe = nodes_[a].probe != 0 && nodes_[a].probe == nodes_[b].probe;
  return !in_one_probe && !nodes_[a].met.contains(b);
}

void Survey::Await(Id a, Id b, const Meeting& meeting) {
  nodes_[a].awaits[b] = nodes_[b].awaits[a] = meeting;
  freed_.insert(a);
}

void Survey::Prefer(const std::set<std::string>& nodes) {
  const std::vector<Id> here = Here(nodes);
  ForEachMeeting(here.size(), [&](std::uint32_t round, std::size_t i, std::size_t j) {
    const Id a = here[i];
    const Id b = here[j];
    const auto known = nodes_[a].awaits.find(b);
    if (known == nodes_[a].awaits.end() ? MayMeet(a, b) : known->second.refused == 0) {
      Await(a, b, {.order = round});
    }
  });
}

void Survey::SetMet(Id a, Id b) {
  nodes_[a].met.insert(b);
  nodes_[b].met.insert(a);
}

void Survey::Finish(std::map<std::uint64_t, Running>::iterator running) {
  for (const Id id : {running->second.measures, running->second.answers}) {
    nodes_[id].probe = 0;
    freed_.insert(id);
  }
  running_.erase(running);
}

// Who has not met, in the order of the tournament.
void Survey::Draw(TimePoint now) {
  changed_ = false;
  drawn_ = now;
  std::vector<Id> here;
  std::vector<std::map<Id, Meeting>> before(nodes_.size());
  for (const auto& [name, id] : ids_) {
    before[id] = std::exchange(nodes_[id].awaits, {});
    if (nodes_[id].is_here) {
      here.push_back(id);
    }
  }
  for (const Id a : here) {
    for (const auto& [b, meeting] : before[a]) {
      if (meeting.order < kTournament && nodes_[b].is_here) {
        Await(a, b, meeting);
      }
    }
  }
  ForEachMeeting(here.size(), [&](std::uint32_t round, std::size_t i, std::size_t j) {
    const Id a = here[i];
    const Id b = here[j];
    if (!MayMeet(a, b) || nodes_[a].awaits.contains(b)) {
      return;
    }
    const auto known = before[a].find(b);
    const bool was_refused = known != before[a].end() && known->second.refused > 0;
    Await(a, b, was_refused ? known->second : Meeting{.order = kTournament + round});
  });
}

Survey::Probe Survey::Start(Id a, Id b, TimePoint now) {
  const Meeting meeting = nodes_[a].awaits.at(b);
  nodes_[a].awaits.erase(b);
  nodes_[b].awaits.erase(a);
  std::uint64_t id = 0;
  while (id == 0 || running_.contains(id)) {
    id = random_();
  }
  const bool in_order = nodes_[a].name < nodes_[b].name;
  const Running& running =
      running_.emplace(id, Running{in_order ? a : b, in_order ? b : a, meeting}).first->second;
  began_.emplace_back(now, id);
  nodes_[a].probe = nodes_[b].probe = id;
  return {
      .id = id, .measures = nodes_[running.measures].name, .answers = nodes_[running.answers].name};
}

std::vector<Survey::Probe> Survey::Begin(TimePoint now) {
  for (; !began_.empty() && now - began_.front().first > kProbeLimit; began_.pop_front()) {
    const auto running = running_.find(began_.front().second);
    if (running != running_.end()) {
      SetMet(running->second.measures, running->second.answers);
      Finish(running);
    }
  }
  for (; !due_.empty() && due_.begin()->first <= now; due_.erase(due_.begin())) {
    freed_.insert(due_.begin()->second);
  }
  if (changed_ && (here_ <= kRoundsMax + 1 || now - drawn_ >= kDrawEvery)) {
    Draw(now);
  }
  std::vector<std::tuple<std::uint32_t, Id, Id>> meetings;  // by order
  for (const Id a : std::exchange(freed_, {})) {
    for (const auto& [b, meeting] : nodes_[a].awaits) {
      if (nodes_[a].is_free() && nodes_[b].is_free() && meeting.due <= now) {
        meetings.emplace_back(meeting.order, std::min(a, b), std::max(a, b));
      }
    }
  }
  std::sort(meetings.begin(), meetings.end());
  std::vector<Probe> probes;
  for (const auto& [order, a, b] : meetings) {
    if (nodes_[a].is_free() && nodes_[b].is_free()) {
      probes.push_back(Start(a, b, now));
    }
  }
  return probes;
}

std::optional<LinkTable::Pair> Survey::End(std::uint64_t id,
                                           const std::string& node,
                                           Result result,
                                           TimePoint now) {
  const auto running = running_.find(id);
  if (running == running_.end() || nodes_[running->second.measures].name != node) {
    return std::nullopt;
  }
  auto [a, b, meeting] = running->second;
  Finish(running);
  if (result == Result::kBusy) {
    meeting.order = kLast;
    meeting.due = now + kBusyFirst * (1 << std::min(meeting.refused++, kBusyDoublings));
    Await(a, b, meeting);
    due_.emplace(meeting.due, a);
  } else {
    SetMet(a, b);
  }
  return LinkTable::Pair(nodes_[a].name, nodes_[b].name);
}

bool Survey::IsPending(const std::set<std::string>& nodes) const {
  const std::vector<Id> here = Here(nodes);
  const std::set<Id> ids(here.begin(), here.end());
  return std::any_of(here.begin(), here.end(), [&](Id id) {
    const auto running = running_.find(nodes_[id].probe);
    if (running != running_.end() && running->second.meeting.refused == 0 &&
        ids.contains(running->second.measures) && ids.contains(running->second.answers)) {
      return true;
    }
    return std::any_of(
        nodes_[id].awaits.begin(), nodes_[id].awaits.end(), [&](const auto& awaited) {
          return awaited.second.refused == 0 && ids.contains(awaited.first);
        });
  });
}

}  // namespace maypole::server
