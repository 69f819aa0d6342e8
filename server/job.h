// One job as the coordinator sees it: who sits on which rank, and whether it is forming, running or
// has failed.
//
// Pure data and questions about it; membership.h changes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/time.h"
#include "server/events.h"

namespace maypole::server {

enum class JobState : std::uint8_t { kForming, kRunning, kFailed };

std::string Name(JobState state);

enum class SeatState : std::uint8_t {
  kTaken,
  // The agent has attached again without claiming the job: its rank left while nobody listened, or
  // the epoch did not reach it and the rank is about to join again.
  kUnclaimed,
  kLeft,
};

// One rank's place in a job.
struct Seat {
  std::string node;
  SeatState state = SeatState::kTaken;
  TimePoint since;
  TimePoint deadline = kNever;  // for the job to form
};

// How long the ops of a row took.
struct RowNews {
  std::map<std::string, RowMeasured> waiting;  // by node, until all members have told
  std::optional<RowMeasured> measured;  // the last that all told; ops since the row is what it is
  std::uint32_t far_off = 0;            // times running that it was
};

struct Job {
  JobState state = JobState::kForming;
  TimePoint since;  // in this state
  EpochInfo epoch;  // job and world_size always; the rest once it runs
  std::map<Rank, Seat> seats;
  std::set<Rank> gave_up;      // while forming: ranks that waited in vain and have not come again
  bool wait_reported = false;  // while forming
  TimePoint complete_since;    // while forming: since when all ranks are here
  std::map<std::uint32_t, RowNews> news;           // of epoch.tuning, by row
  std::map<std::uint32_t, std::uint32_t> changes;  // of the time that a row takes, once measured
  std::vector<collective::Correction> learned;
  std::vector<collective::LevelModel> level_costs;  // of epoch.levels, as last published here
  std::string reason;  // why it is in this state; while forming, ReasonOf tells

  bool is_complete() const { return seats.size() == epoch.world_size; }

  bool has_ended() const;  // nobody sits any more
  std::vector<Rank> MissingRanks() const;
  // The missing ones without those that gave up.
  std::vector<Rank> AwaitedRanks() const;
  // Ranks of `node` that have not left.
  std::vector<Rank> RanksOf(const std::string& node) const;
  std::map<Rank, std::string> Nodes() const;
};

// One sentence for a person, with the values.
std::string ReasonOf(const Job& job);

// What is wrong with an epoch that an agent claims to run; empty if nothing.
std::optional<std::string> FaultOf(const EpochInfo& claim);

}  // namespace maypole::server
