#include "server/survey.h"

#include <algorithm>

namespace maypole::server {
namespace {

// An agent ends a probe by itself long before.
constexpr Duration kProbeLimit = std::chrono::seconds(6);
constexpr Duration kBusyFirst = std::chrono::milliseconds(250);
constexpr std::uint32_t kBusyDoublings = 7;  // up to 32 s

}  // namespace

void Survey::Add(const std::string& node) {
  changed_ |= nodes_.insert(node).second;
}

void Survey::Remove(const std::string& node) {
  changed_ |= nodes_.erase(node) > 0;
  for (auto running = running_.begin(); running != running_.end();) {
    const auto next = std::next(running);
    const auto& [a, b] = running->second.waiting.pair;
    if (a == node || b == node) {
      Finish(running);
    }
    running = next;
  }
}

void Survey::Forget(const std::string& node) {
  std::erase_if(met_, [&](const auto& pair) { return pair.first == node || pair.second == node; });
  changed_ = true;
}

void Survey::ForgetAll() {
  met_.clear();
  changed_ = true;
}

void Survey::Finish(std::map<std::uint64_t, Running>::iterator running) {
  busy_.erase(running->second.waiting.pair.first);
  busy_.erase(running->second.waiting.pair.second);
  running_.erase(running);
}

// Who has not met, in the order of the tournament.
void Survey::Pair() {
  changed_ = false;
  std::map<LinkTable::Pair, Waiting> before;
  for (Waiting& waiting : std::exchange(waiting_, {})) {
    before.emplace(waiting.pair, waiting);
  }
  std::set<LinkTable::Pair> in_progress;
  for (const auto& [id, running] : running_) {
    in_progress.insert(running.waiting.pair);
  }
  const std::vector<std::string> nodes(nodes_.begin(), nodes_.end());
  const std::size_t places = nodes.size() + nodes.size() % 2;  // the last may stay empty
  const std::size_t moving = places == 0 ? 0 : places - 1;
  for (std::size_t round = 0; round < std::min(moving, kRoundsMax); ++round) {
    for (std::size_t i = 0; i < places / 2; ++i) {
      const std::size_t a = i == 0 ? places - 1 : (round + i) % moving;
      const std::size_t b = i == 0 ? round : (round + moving - i) % moving;
      if (a >= nodes.size() || b >= nodes.size()) {
        continue;
      }
      const LinkTable::Pair pair = LinkTable::PairOf(nodes[a], nodes[b]);
      if (!met_.contains(pair) && !in_progress.contains(pair)) {
        const auto known = before.find(pair);
        waiting_.push_back(known == before.end() ? Waiting{.pair = pair} : known->second);
      }
    }
  }
}

std::vector<Survey::Probe> Survey::Begin(TimePoint now) {
  for (auto running = running_.begin(); running != running_.end();) {
    const auto next = std::next(running);
    if (now - running->second.began > kProbeLimit) {
      met_.insert(running->second.waiting.pair);
      Finish(running);
    }
    running = next;
  }
  if (changed_) {
    Pair();
  }
  std::vector<Probe> probes;
  for (auto waiting = waiting_.begin();
       waiting != waiting_.end() && busy_.size() + 1 < nodes_.size();) {
    const auto& [a, b] = waiting->pair;
    if (busy_.contains(a) || busy_.contains(b) || waiting->due > now) {
      ++waiting;
      continue;
    }
    std::uint64_t id = 0;
    while (id == 0 || running_.contains(id)) {
      id = random_();
    }
    probes.push_back({.id = id, .measures = a, .answers = b});
    busy_.insert({a, b});
    running_.emplace(id, Running{*waiting, now});
    waiting = waiting_.erase(waiting);
  }
  return probes;
}

std::optional<LinkTable::Pair> Survey::End(std::uint64_t id,
                                           const std::string& node,
                                           Result result,
                                           TimePoint now) {
  const auto running = running_.find(id);
  if (running == running_.end() || running->second.waiting.pair.first != node) {
    return std::nullopt;
  }
  Waiting waiting = running->second.waiting;
  Finish(running);
  if (result == Result::kBusy) {
    waiting.due = now + kBusyFirst * (1 << std::min(waiting.refused++, kBusyDoublings));
    waiting_.push_back(waiting);
  } else {
    met_.insert(waiting.pair);
  }
  return waiting.pair;
}

bool Survey::IsPending(const std::set<std::string>& nodes) const {
  const auto both = [&](const Waiting& waiting) {
    return waiting.refused == 0 && nodes.contains(waiting.pair.first) &&
           nodes.contains(waiting.pair.second);
  };
  return std::any_of(waiting_.begin(), waiting_.end(), both) ||
         std::any_of(running_.begin(), running_.end(), [&](const auto& entry) {
           return both(entry.second.waiting);
         });
}

}  // namespace maypole::server
