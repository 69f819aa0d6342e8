// One run of one job on this agent: its members, its local ranks, its ops from the first submission
// to the last completion, and what happens to them when somebody leaves or dies. Pure.
//
// Ranks that take part in an op: all, or the two of a send/receive. The members that take part are
// theirs.
//
// An op: collecting (local ranks submit; announces of all members arrive) -> running (execution.h)
// -> ended. An op that failed stays as a tombstone until every local rank has submitted it and got
// the error.
//
// Fixed jobs (all jobs, for now): after the loss of a rank or agent, ops that have not started
// fail, and so does every later one. Ops that run go on to their end if only a rank died, since the
// agents hold all they need; the loss of an agent ends them too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/engine/events.h"
#include "agent/engine/execution.h"
#include "agent/engine/execution_table.h"
#include "agent/engine/matching.h"
#include "agent/engine/peer_table.h"
#include "agent/engine/plan_cache.h"
#include "agent/engine/row_ratios.h"
#include "agent/memory/memory.h"
#include "collective/select.h"

namespace maypole::agent {

struct CoreOptions {
  std::string node;
  std::uint64_t incarnation = 0;
  std::string host;
  std::uint32_t slice_bytes = 256 * 1024;  // of one data frame, where no table says otherwise
  std::uint32_t local_slice_bytes =
      256 * 1024;  // of one piece of summing when there is no other agent
  std::uint64_t slice_bytes_min = collective::kSliceBytesMin;  // that another agent may choose
  std::uint64_t window_bytes = 512 * 1024;                     // handed to the transport per peer
  Duration lease = std::chrono::seconds(3);  // a peer that is silent for longer is lost
  Duration default_timeout = std::chrono::seconds(300);
  Duration stall_report_after = std::chrono::seconds(5);
  Duration coordinator_patience =
      std::chrono::seconds(30);  // joins fail if there is no coordinator for so long
  std::uint32_t names_per_job_max = 1 << 18;
  std::size_t plan_steps_max = 1 << 17;
};

// What an op needs of the rest of the core.
struct CoreContext {
  const CoreOptions& options;
  Memory& memory;
  PeerTable& peers;
  PlanCache& plans;
  std::vector<Action>& actions;
  ExecutionTable& executions;
  std::uint64_t& next_order;      // the age of the next op
  std::uint64_t& epochs_version;  // changes when a job fails
};

// A data frame that came before its op started.
struct ParkedFrame {
  FrameHeader header;
  ArrivedPayload payload;
};

struct WaitingFor {
  std::string name;
  std::uint64_t occurrence = 0;
  Duration waited{0};
  std::vector<Rank> missing;
  std::string reason;
};

class Job {
 public:
  // `sessions`: local rank -> session, ascending. The epoch has been validated: this node is a
  // member with exactly these ranks.
  Job(EpochInfo epoch,
      Member self,
      std::map<Rank, SessionId> sessions,
      CoreContext context,
      TimePoint now);
  ~Job();

  const EpochInfo& epoch() const { return epoch_; }

  // Ops whose announces are sent from now on are run by it. False if it is no newer one.
  bool Tune(collective::TuningTable tuning);

  void Submit(Submission submission, TimePoint now);
  void OnFrame(const FrameHeader& header,
               ArrivalId arrival,
               std::span<const std::byte> body,
               TimePoint now);
  void OnTokenDone(const OpKey& key, std::uint64_t token, bool ok, TimePoint now);

  // A local session ended.
  void OnSessionGone(SessionId session, bool died, const std::string& reason, TimePoint now);
  // `peer` is lost; ignored if it is no member.
  void OnPeerLost(PeerId peer, const std::string& text, TimePoint now);
  // Told by the coordinator.
  void OnFailedElsewhere(Outcome outcome, TimePoint now);
  void OnResultReleased(SessionId session, std::uint32_t slot);

  void OnTick(TimePoint now);
  void SendHeartbeats();
  // The members whose lease has run out for this job; one that has not got its epoch may speak of
  // others.
  std::vector<PeerId> SilentPeers(TimePoint now) const;

  bool failed() const { return failure_.has_value(); }

  // No local session is left and nothing runs: the job can be forgotten here.
  bool Finished() const { return live_sessions_ == 0 && ops_.empty(); }

  // Ops that collect or run. One that failed and waits only to be told to later submitters does not
  // count.
  std::size_t LiveOps() const;
  bool HasLiveOps() const;

  // Ops of a session that may still touch its memory.
  bool UsesSession(SessionId session) const;

  std::vector<WaitingFor> Waiting(TimePoint now) const;

 private:
  struct LocalRank {
    Rank rank{0};
    SessionId session = 0;
    bool gone = false;
    bool told_of_failure = false;
    std::unordered_map<std::uint64_t, std::uint64_t> uses;  // name hash -> occurrences submitted
  };

  using Pair = std::pair<Rank, Rank>;  // sender, receiver

  struct Op {
    std::string name;
    std::uint64_t order = 0;
    std::vector<std::optional<Submission>> local;    // by index of the local rank
    std::vector<std::optional<Announce>> announces;  // by member
    std::vector<std::vector<Rank>>
        news;  // by member: ranks known to have submitted, from partial announces
    std::vector<ParkedFrame> parked;
    std::uint8_t collective = 0;
    collective::Algorithm algorithm = collective::Algorithm::kAuto;  // once it runs
    std::optional<Pair> pair;                                        // of a send/receive
    TimePoint first_seen{};
    TimePoint started{};
    TimePoint deadline = kNever;
    std::size_t news_sent = 0;  // local ranks in the last partial announce
    bool stall_reported = false;
    std::unique_ptr<Execution> execution;
    std::uint64_t first_token = 0;   // of the execution
    bool alone = false;              // nothing else ran here when it started
    std::optional<std::size_t> row;  // of the tuning table of version row_of, if it predicts
    std::uint32_t row_of = 0;
    std::optional<SharedResult> shared;
    std::optional<Outcome> failure;
    bool completed = false;  // the sessions have been told
  };

  using Ops = std::map<OpKey, Op>;

  Op& FindOrCreate(const OpKey& key, TimePoint now);
  // `peer` is a member whose loss would still matter here.
  bool Needs(PeerId peer) const;
  std::size_t LocalIndex(SessionId session) const;
  // What a local rank submitted; one has.
  static const Submission& AnyOf(const Op& op);
  static bool TakesPart(const std::optional<Pair>& pair, Rank rank);
  bool TakesPart(const Op& op, Member member) const;
  bool LocallyComplete(const Op& op) const;
  bool SubmittedBefore(const OpKey& key, const std::optional<Pair>& pair) const;
  bool MayBegin(const OpKey& key, const std::optional<Pair>& pair = {}) const;

  void OnAnnounce(const FrameHeader& header, std::span<const std::byte> body, TimePoint now);
  void OnAbort(const FrameHeader& header, std::span<const std::byte> body, TimePoint now);
  void OnMemberFailed(const FrameHeader& header, std::span<const std::byte> body, TimePoint now);
  void OnData(const FrameHeader& header, const ArrivedPayload& payload, TimePoint now);

  collective::Choice ChoiceFor(const Submission& submission) const;
  Announce MakeAnnounce(const Op& op) const;
  void AnnounceOwn(const OpKey& key, Op& op);
  void TryStart(const OpKey& key, TimePoint now);
  // Of those that take part, once the announces of all are here: the op is run as it says.
  static std::size_t FirstMember(const Op& op);
  // Compares what an op took with its row's prediction.
  void Compare(const Op& op, TimePoint now);
  void TellRatios(TimePoint now);
  // Why the members cannot run what the first of them chose; the same on all of them.
  std::optional<Outcome> ChoiceProblem(const OpKey& key, const Op& op) const;
  void Start(const OpKey& key, Op& op, TimePoint now);
  std::optional<ExecutionSpec> MakeSpec(Op& op);
  void FailOp(const OpKey& key, Outcome outcome, bool tell_members, TimePoint now);
  // After any change of an op's execution: completes, restores or forgets it as far as it has come.
  void Settle(const OpKey& key, TimePoint now);
  void CompleteLocals(Op& op, const Outcome& outcome, TimePoint now);
  void Flush(const OpKey& key, Op& op, ExecutionOutput& out);
  // Fails what can no longer become complete because somebody left.
  void FailDeparted(const OpKey& key, TimePoint now);

  enum class Loss { kRank, kAgent };
  void Fail(Outcome outcome, Loss loss, TimePoint now);
  // In a failed job: ends the sessions of which no op is under way any more.
  void FailIdleSessions();

  std::vector<Rank> MissingRanks(const Op& op) const;
  std::string DescribeOp(const OpKey& key, const Op& op) const;
  std::string DescribeRanksWithHosts(const std::vector<Rank>& ranks) const;
  std::string HostsOf(const std::vector<Rank>& ranks) const;
  Member MemberOf(Rank rank) const;
  // Of ops that wait for the same ranks, the oldest by name and the others as a number.
  void ReportStalls(TimePoint now);
  void SendNews(const OpKey& key, Op& op);
  void CheckDeadline(const OpKey& key, Op& op, TimePoint now);

  FrameHeader Header(FrameKind kind, const OpKey& key) const;
  void ToMembers(const FrameHeader& header, const std::vector<std::byte>& body);
  // To those that take part in the op.
  void ToMembersOf(const Op& op, const FrameHeader& header, const std::vector<std::byte>& body);

  void Drop(const FrameHeader& header, ArrivalId arrival) {
    if (header.payload_bytes > 0) {
      context_.actions.emplace_back(DropPayload{arrival});
    }
  }

  EpochInfo epoch_;
  Member self_;
  std::shared_ptr<const collective::Placement> placement_;
  std::vector<Member> sum_order_;  // by lowest rank, wherever in the ring; empty: as in the ring
  CoreContext context_;
  std::vector<LocalRank> locals_;
  std::vector<PeerId> peers_;     // by member; 0 for self
  std::vector<TimePoint> heard_;  // by member, in this job
  std::size_t live_sessions_ = 0;
  Ops ops_;
  std::set<Rank> departed_;
  std::map<Rank, std::string> departure_reasons_;
  std::optional<Outcome> failure_;
  std::map<std::pair<SessionId, std::uint32_t>, std::shared_ptr<SharedResult>> shared_results_;
  RowRatios ratios_;
  TimePoint next_ratios_{};
};

}  // namespace maypole::agent
