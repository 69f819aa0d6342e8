#include "server/job.h"

#include <algorithm>
#include <set>

#include "proto/control.h"
#include "proto/handshake.h"
#include "proto/text.h"
#include "server/text.h"

namespace maypole::server {
std::string Name(JobState state) {
  switch (state) {
    case JobState::kForming:
      return "forming";
    case JobState::kRunning:
      return "running";
    case JobState::kFailed:
      return "failed";
  }
  return "unknown";
}

bool Job::has_ended() const {
  return std::all_of(seats.begin(), seats.end(), [](const auto& entry) {
    return entry.second.state == SeatState::kLeft;
  });
}

std::vector<Rank> Job::MissingRanks() const {
  std::vector<Rank> missing;
  for (std::uint32_t rank = 0; rank < epoch.world_size; ++rank) {
    if (!seats.contains(Rank(rank))) {
      missing.emplace_back(rank);
    }
  }
  return missing;
}

std::vector<Rank> Job::AwaitedRanks() const {
  std::vector<Rank> awaited = MissingRanks();
  std::erase_if(awaited, [&](Rank rank) { return gave_up.contains(rank); });
  return awaited;
}

std::vector<Rank> Job::RanksOf(const std::string& node) const {
  std::vector<Rank> ranks;
  for (const auto& [rank, seat] : seats) {
    if (seat.node == node && seat.state != SeatState::kLeft) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

std::map<Rank, std::string> Job::Nodes() const {
  std::map<Rank, std::string> nodes;
  for (const auto& [rank, seat] : seats) {
    nodes.emplace(rank, seat.node);
  }
  return nodes;
}

std::string ReasonOf(const Job& job) {
  if (job.state != JobState::kForming) {
    return job.reason;
  }
  if (job.is_complete()) {
    return "all " + std::to_string(job.epoch.world_size) +
           " ranks have joined; the links between their nodes are being measured";
  }
  const std::vector<Rank> awaited = job.AwaitedRanks();
  const std::vector<Rank> gave_up(job.gave_up.begin(), job.gave_up.end());
  return std::to_string(job.seats.size()) + " of " + std::to_string(job.epoch.world_size) +
         " ranks have joined" + (awaited.empty() ? "" : "; waiting for " + RankText(awaited)) +
         (gave_up.empty() ? "" : "; " + RankText(gave_up) + " gave up waiting");
}

std::optional<std::string> FaultOf(const EpochInfo& claim) {
  if (claim.job.empty() || claim.job.size() > kJobNameBytesMax || !IsPrintableUtf8(claim.job)) {
    return "the job's name is not allowed";
  }
  if (claim.token.value() == 0 || claim.epoch.value() == 0) {
    return "token or epoch is 0";
  }
  if (claim.world_size == 0 || claim.world_size > kWorldSizeMax) {
    return "world size " + std::to_string(claim.world_size) + " is out of range";
  }
  std::set<Rank> ranks;
  std::set<std::string> nodes;
  for (const EpochMember& member : claim.members) {
    if (member.node.empty() || member.ranks.empty() || !nodes.insert(member.node).second) {
      return "node \"" + member.node + "\" is empty or double";
    }
    for (Rank rank : member.ranks) {
      if (rank.value() >= claim.world_size || !ranks.insert(rank).second) {
        return "rank " + std::to_string(rank.value()) + " is out of range or double";
      }
    }
  }
  if (ranks.size() != claim.world_size) {
    return std::to_string(ranks.size()) + " of " + std::to_string(claim.world_size) +
           " ranks have a member";
  }
  return std::nullopt;
}

}  // namespace maypole::server
