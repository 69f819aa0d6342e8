// The vocabulary between the coordinator's core (membership.h) and its shell
// (coordinator_service.h): what happened, and what is to be done. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "collective/schedule.h"
#include "collective/tuning.h"
#include "common/ids.h"
#include "common/time.h"
#include "server/labels.h"
#include "server/survey.h"

namespace maypole::server {

// One Attach stream; never reused, never 0.
using ConnectionId = std::uint64_t;

struct EpochMember {
  std::string node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string data_address;
  std::vector<Rank> ranks;       // ascending
  std::uint64_t generation = 0;  // of its connections; of two members' the larger counts

  friend bool operator==(const EpochMember&, const EpochMember&) = default;
};

struct EpochInfo {
  std::string job;
  JobToken token{0};
  Epoch epoch{0};
  std::uint32_t world_size = 0;
  std::vector<EpochMember> members;  // in ring order
  std::string reason;
  std::vector<collective::Level> levels;  // innermost first; empty: none
  collective::TuningTable tuning;         // the newest that was published

  friend bool operator==(const EpochInfo&, const EpochInfo&) = default;
};

// ---- events

struct AgentAttached {
  ConnectionId connection = 0;
  std::string node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string data_address;
  std::string data_endpoint;
  std::string version;
  std::uint32_t protocol = 0;
  std::vector<EpochInfo> epochs;  // that run on it
  Labels labels;
};

struct AgentDetached {
  ConnectionId connection = 0;
};

struct RankJoins {
  ConnectionId connection = 0;
  std::string job;
  Rank rank{0};
  std::uint32_t world_size = 0;
  Duration timeout{0};  // for the job to form; <= 0: none
};

struct RankLeaves {
  ConnectionId connection = 0;
  std::string job;
  JobToken token{0};  // 0: the agent had not seen the job form
  Rank rank{0};
  bool died = false;
  std::string reason;
};

struct FailureReported {
  ConnectionId connection = 0;
  std::string job;
  JobToken token{0};
  Epoch epoch{0};
  std::string text;
  std::string culprits;
};

// The end of a probe.
struct LinkMeasured {
  ConnectionId connection = 0;
  std::uint64_t id = 0;
  Survey::Result result = Survey::Result::kOk;
  collective::LinkModel link;  // if kOk
  std::uint32_t samples = 0;
};

// All links are to be measured anew.
struct LinksWanted {};

// How long ops took, over what a row of the table predicted.
struct RowMeasured {
  std::uint32_t row = 0;
  std::uint32_t ops = 0;  // since the last report
  double ratio = 0;       // the median
};

struct RowsMeasured {
  ConnectionId connection = 0;
  std::string job;
  JobToken token{0};
  std::uint32_t version = 0;  // of the table
  std::vector<RowMeasured> rows;
};

using Event = std::variant<AgentAttached,
                           AgentDetached,
                           RankJoins,
                           RankLeaves,
                           FailureReported,
                           LinkMeasured,
                           LinksWanted,
                           RowsMeasured>;

// ---- actions

struct SendWelcome {
  ConnectionId connection = 0;
};

// Tells the agent why, then ends the stream.
struct RefuseAgent {
  ConnectionId connection = 0;
  std::string text;
};

// Ends a stream that another of the same agent has replaced.
struct CloseConnection {
  ConnectionId connection = 0;
};

struct RefuseJoin {
  ConnectionId connection = 0;
  std::string job;
  Rank rank{0};
  std::string text;
  bool timed_out = false;  // nothing is wrong with it, but the job did not form in time
  std::string culprits;    // "waiting_ranks=2,3"
};

struct SendEpoch {
  ConnectionId connection = 0;
  EpochInfo epoch;
};

// A newer table for a job that runs.
struct SendTuning {
  ConnectionId connection = 0;
  std::string job;
  JobToken token{0};
  collective::TuningTable tuning;
};

// Measure the link to `peer`, or answer its probes.
struct SendProbe {
  ConnectionId connection = 0;
  std::uint64_t id = 0;
  EpochMember peer;  // without ranks
  bool measures = false;
};

struct SendJobFailed {
  ConnectionId connection = 0;
  std::string job;
  JobToken token{0};
  std::string text;
  std::string culprits;
};

// Something a person should read, once.
struct LogLine {
  enum class Level : std::uint8_t { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string text;
};

using Action = std::variant<SendWelcome,
                            RefuseAgent,
                            CloseConnection,
                            RefuseJoin,
                            SendEpoch,
                            SendTuning,
                            SendProbe,
                            SendJobFailed,
                            LogLine>;

}  // namespace maypole::server
