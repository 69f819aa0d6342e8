// The vocabulary between the agent's core and its shell: what happened (events), and what is to be
// done (actions). Plain data.
//
// The shell (agent/agent.cc) turns sockets, UCX, gRPC and threads into events and carries the
// actions out; the simulator (tests/sim) does the same with virtual ones. Every action that names a
// token or id is answered by the event that carries it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "agent/memory/buffer.h"
#include "agent/memory/memory.h"
#include "agent/reduce/work.h"
#include "agent/transport/transport.h"
#include "collective/schedule.h"
#include "collective/tuning.h"
#include "common/dtype.h"
#include "common/error_code.h"
#include "common/ids.h"
#include "common/quantity.h"
#include "common/time.h"
#include "proto/frame.h"

namespace maypole::agent {

// One connected client (a rank of one job); never reused.
using SessionId = std::uint64_t;
// One ReduceWork that was handed out.
using WorkToken = std::uint64_t;
// Tokens from here on are the shell's own, for sends that nobody in the core waits for.
inline constexpr TransferToken kShellTokens = TransferToken{1} << 63;

// ---- client edge (agent/segment) -> core

struct ClientHello {
  SessionId session = 0;
  std::string job;
  Rank rank{0};
  std::uint32_t world_size = 0;
  std::int64_t pid = 0;
  Duration timeout{0};  // for the job to form; <= 0: none
};

// A validated slot. `tensor` is mapped and stays so until ReleaseSession.
struct Submission {
  SessionId session = 0;
  std::uint32_t slot = 0;
  std::string name;
  collective::Collective collective = collective::Collective::kAllReduce;
  collective::Algorithm algorithm = collective::Algorithm::kAuto;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  bool shared_result = false;  // out of place, one copy for the node; else in place
  bool overwrite = false;      // in place, and the input need not be restored on failure
  std::int32_t priority = 0;
  ElementCount elements = 0;
  BufferView tensor;
  Rank root{0};                      // of kBroadcast and kReduce; the sender of kSendReceive
  Rank peer{0};                      // the receiver of kSendReceive
  std::vector<ElementCount> counts;  // of each rank's block, adding up to `elements`; empty: equal
  BufferView output;                 // of kAllToAll, as large as the tensor
  Duration timeout{0};               // <= 0: the agent's default
};

struct ResultReleased {
  SessionId session = 0;
  std::uint32_t slot = 0;
};

struct ClientGone {
  SessionId session = 0;
  bool died = false;   // false: it said goodbye
  std::string reason;  // "closed its session", "its process ended without closing (pid 4711)"
};

using ClientEvent = std::variant<ClientHello, Submission, ResultReleased, ClientGone>;

// ---- coordinator (agent/control) -> core

struct EpochMember {
  std::string node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::string data_address;
  std::vector<Rank> ranks;       // ascending
  std::uint64_t generation = 0;  // of its connections; of two members' the larger counts
};

struct EpochInfo {
  std::string job;
  JobToken token{0};
  Epoch epoch{0};
  std::uint32_t world_size = 0;
  std::vector<EpochMember> members;  // in ring order; index = Member
  std::string reason;
  std::vector<collective::Level> levels;  // for kHierarchical; empty: not available
  collective::TuningTable tuning;         // the newest that was published
};

// A newer table for a job that runs.
struct TuningChanged {
  std::string job;
  JobToken token{0};
  collective::TuningTable tuning;
};

struct JoinRefused {
  std::string job;
  Rank rank{0};
  std::string text;
  bool timed_out = false;  // nothing is wrong with it, but the job did not form in time
  std::string culprits;
};

struct JobFailed {
  std::string job;
  JobToken token{0};
  std::string text;
  std::string culprits;
};

// The coordinator refused this agent as a whole (a second agent on the node, another protocol).
struct AgentRefused {
  std::string text;
};

// The stream is up (again), or down. Joins not answered before it came up have to be said again.
struct CoordinatorLink {
  bool up = false;
  std::string text;
};

// Measure the link to `peer`, or answer its probes. `id` is known to the two alone, as a job's
// token to its members.
struct ProbeLink {
  std::uint64_t id = 0;
  EpochMember peer;  // without ranks
  bool measures = false;
};

using ControlEvent = std::variant<EpochInfo,
                                  TuningChanged,
                                  ProbeLink,
                                  JoinRefused,
                                  JobFailed,
                                  AgentRefused,
                                  CoordinatorLink>;

// ---- core -> coordinator

struct JoinRank {
  std::string job;
  Rank rank{0};
  std::uint32_t world_size = 0;
  Duration timeout{0};  // from now on; <= 0: none
};

struct LeaveRank {
  std::string job;
  JobToken token{0};  // 0: the job had not formed
  Rank rank{0};
  bool died = false;
  std::string reason;
};

struct FailureReport {
  std::string job;
  JobToken token{0};
  Epoch epoch{0};
  std::string text;
  std::string culprits;
};

// How a ProbeLink with `measures` ended.
struct LinkMeasured {
  // kBusy: an op is in flight on one of the two. kFailed: no answer.
  enum class Result : std::uint8_t { kOk, kBusy, kFailed };
  std::uint64_t id = 0;
  Result result = Result::kOk;
  collective::LinkModel link;  // if kOk
  std::uint32_t samples = 0;
};

struct RowMeasured {
  std::uint32_t row = 0;  // of the table
  std::uint32_t ops = 0;  // since the last report
  double ratio = 0;       // median of time over predicted time
};

// Told by every member of a job, now and then.
struct RowsMeasured {
  std::string job;
  JobToken token{0};
  std::uint32_t version = 0;  // of the table
  std::vector<RowMeasured> rows;
};

using ControlMessage = std::variant<JoinRank, LeaveRank, FailureReport, LinkMeasured, RowsMeasured>;

// ---- core -> shell

// A refusal ends the session; kOk lets it wait for SessionReady.
struct AnswerHello {
  SessionId session = 0;
  Outcome outcome;
};

struct SessionReady {
  SessionId session = 0;
  Outcome outcome;  // not ok: the job will never form
  JobToken token{0};
  Epoch epoch{0};
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 0;
  std::uint32_t nodes = 0;
  Duration default_timeout{0};  // of ops that name none
  Duration lease{0};            // an agent without a sign of life for so long is stopped
};

struct CompleteOp {
  SessionId session = 0;
  std::uint32_t slot = 0;
  Outcome outcome;
  SharedResult result;  // for a shared result that is ok
};

// Every later call of this session fails with `outcome`, and so does every wait for what is not
// completed: no op of it is under way.
struct FailSession {
  SessionId session = 0;
  Outcome outcome;
};

// Nothing uses the memory of this session any more; it may be unmapped.
struct ReleaseSession {
  SessionId session = 0;
};

struct ConnectPeer {
  PeerId peer = 0;
  std::string address;
};

struct DisconnectPeer {
  PeerId peer = 0;
};

// `body` (control frames) or `payload` (data); the shell keeps `body` alive until the send is done.
// token 0: nobody waits for it.
struct SendFrame {
  PeerId peer = 0;
  FrameHeader header;
  BufferView payload;
  std::vector<std::byte> body;
  TransferToken token = 0;
};

struct ReceivePayload {
  ArrivalId arrival = 0;
  BufferView target;
  TransferToken token = 0;
};

struct DropPayload {
  ArrivalId arrival = 0;
};

struct RunWork {
  WorkToken token = 0;
  ReduceWork work;
};

struct TellCoordinator {
  ControlMessage message;
};

// An op ended on this node: for counters and histograms.
struct OpFinished {
  collective::Collective collective = collective::Collective::kAllReduce;
  collective::Algorithm algorithm = collective::Algorithm::kAuto;
  std::uint64_t bytes = 0;  // of one rank's tensor
  std::uint32_t world_size = 0;
  std::uint32_t members = 1;
  Duration waited{0};  // from the first submission here to the start: for ranks and agents
  Duration ran{0};     // from the start to the end
  ErrorCode code = ErrorCode::kOk;
};

// Something a person should read, once.
struct LogLine {
  enum class Level : std::uint8_t { kInfo, kWarning };
  Level level = Level::kInfo;
  std::string text;
};

using Action = std::variant<AnswerHello,
                            SessionReady,
                            CompleteOp,
                            FailSession,
                            ReleaseSession,
                            ConnectPeer,
                            DisconnectPeer,
                            SendFrame,
                            ReceivePayload,
                            DropPayload,
                            RunWork,
                            TellCoordinator,
                            OpFinished,
                            LogLine>;

}  // namespace maypole::agent
