// Who is in which job: the coordinator's core. Events in, actions out; every refusal and every
// decision carries a sentence with the values.
//
// Pure: no I/O, clock, thread or logging; random numbers come from the caller. Confined.
//
// Agents.  One per node name. A lost stream alone changes nothing for running jobs: the coordinator
//          is not on a gradient's path, and the agents' own leases decide. Joins that have not
//          become an epoch are dropped; the agent says them again when it attaches again. An agent
//          that stays away for the lease, or comes back as another process, is gone, and the
//          running jobs with ranks on it fail.
// Jobs.    forming -> running, when all ranks 0 .. world_size-1 have joined, in any order.
//          running -> failed, by the death of a rank, by an agent's report or by the loss of an
//          agent; all members are told. A job is forgotten, and its name free, when all its ranks
//          have left; a failed one also as soon as a rank joins a new run of that name. Agents tell
//          independently of each other that their ranks have left, so the first join of the next
//          run may come before the last leave: while some ranks of a run have left, joins wait, at
//          most for the lease. So do ranks that were forming a job when a run of its name was
//          adopted.
// Memory.  None beyond the process. An agent that attaches tells the epochs that it runs, and the
//          coordinator adopts what it does not know; of two runs that claim one name the higher
//          epoch stays, else the one known first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collective/tuning.h"
#include "common/ids.h"
#include "common/time.h"
#include "proto/control.h"
#include "server/events.h"
#include "server/job.h"
#include "server/links.h"
#include "server/survey.h"

namespace maypole::server {

struct MembershipOptions {
  std::string version;
  Duration agent_lease = std::chrono::seconds(10);
  std::uint32_t world_size_max = kWorldSizeMax;
  std::size_t jobs_max = 1024;
  std::size_t nodes_max = 4096;
  bool probe_links = false;
  // A job whose ranks have all joined waits so long for the links between its nodes.
  Duration probe_patience = std::chrono::seconds(1);
  std::vector<collective::TuningRule> rules;
  // The first of agents' connections (EpochMember): larger than any of a coordinator before.
  std::uint64_t generation = 0;
};

// Since the start.
struct MembershipCounters {
  std::uint64_t agents_refused = 0;
  std::uint64_t joins_refused = 0;
  std::uint64_t epochs_issued = 0;
  std::uint64_t jobs_adopted = 0;
  std::uint64_t jobs_failed = 0;
  std::uint64_t links_measured = 0;
  std::uint64_t tables_published = 0;  // for jobs that ran already
};

struct NodeView {
  std::string node;
  std::string host;
  std::string data_endpoint;
  std::string version;
  ConnectionId connection = 0;  // 0: not attached
  Duration since{0};            // attached or detached
  Labels labels;
};

struct JobView {
  JobState state = JobState::kForming;
  EpochInfo epoch;  // while forming: the members that have joined so far
  std::vector<Rank> missing_ranks;
  std::vector<RowMeasured> measured;                // of epoch.tuning, in no order
  std::vector<collective::LevelModel> level_costs;  // of epoch.levels, or empty
  std::string reason;
  Duration since{0};  // in this state
};

struct LinkView {
  std::string a;
  std::string b;
  collective::LinkModel model;
  std::uint32_t samples = 0;
  Duration since{0};
};

struct Snapshot {
  std::vector<NodeView> nodes;
  std::vector<LinkView> links;
  std::vector<JobView> jobs;
  MembershipCounters counters;
};

class Membership {
 public:
  using Random = std::function<std::uint64_t()>;

  Membership(MembershipOptions options, Random random);

  std::vector<Action> Handle(const Event& event, TimePoint now);
  // Leases; a few times per lease.
  std::vector<Action> Tick(TimePoint now);
  Snapshot TakeSnapshot(TimePoint now) const;

 private:
  struct Agent {
    std::uint64_t incarnation = 0;
    std::string host;
    std::string data_address;
    std::string data_endpoint;
    std::string version;
    ConnectionId connection = 0;
    TimePoint since;
    Labels labels;
    std::uint64_t generation = 0;
  };

  // A run that is over: what to tell an agent that still believes in it.
  struct EndedRun {
    std::string text;
    std::string culprits;
  };

  struct Join {
    RankJoins said;
    TimePoint since;
    TimePoint deadline = kNever;  // for the job to form
    // Of the next run, perhaps, of a name whose run was adopted: who has left that run may be told
    // a little later.
    bool displaced = false;
  };

  using Jobs = std::map<std::string, Job>;

  void On(const AgentAttached& event);
  void On(const AgentDetached& event);
  void On(const RankJoins& event);
  void On(const RankLeaves& event);
  void On(const FailureReported& event);
  void On(const LinkMeasured& event);
  void On(const LinksWanted& event);
  void On(const RowsMeasured& event);

  // Agents (membership.cc).
  std::optional<std::string> RefusalOf(const AgentAttached& event) const;
  void MakeRoomFor(const AgentAttached& event);
  void Detach(const std::string& node);
  void LoseAgent(const std::string& node, const std::string& why);
  const std::string* NodeOf(ConnectionId connection) const;
  ConnectionId ConnectionOf(const std::string& node) const;
  std::string NodeText(const std::string& node) const;  // "node b (host h)"

  // Jobs (membership_jobs.cc).
  void Admit(const Join& join, const std::string& node);
  void AdmitHeld();
  Join JoinOf(const Job& job, Rank rank) const;
  bool MustWait(const Join& join) const;
  void TakeBack(const Join& join, const std::string& why, const std::string& culprits);
  std::optional<std::string> RefusalOf(const RankJoins& event, const std::string& node) const;
  std::optional<std::string> ConflictOf(const RankJoins& event,
                                        const std::string& node,
                                        const Job& job) const;
  bool RejoinUnclaimed(const RankJoins& event, const std::string& node);
  void Form(Job& job);
  // Once, if it has been forming for long.
  void ReportWait(Job& job);
  void ExpireJoins(Job& job);
  void Fail(Job& job, const std::string& text, const std::string& culprits);
  void Reconnect(const std::string& node);
  void ForgetIfEnded(Jobs::iterator job);
  void Remember(JobToken token, EndedRun run);

  // Links and what follows from them (membership_tuning.cc).
  void Progress();  // after every event: probes that can begin, jobs that need not wait any more
  bool WaitsForLinks(const Job& job) const;
  void WantLinks(const Job& job);
  std::map<std::string, Labels> LabelsOf(const Job& job) const;
  collective::TuningTable TableFor(const Job& job,
                                   std::optional<collective::MeasuredLinks> links) const;
  // As they stand for the job now; empty if too few are measured.
  std::optional<collective::MeasuredLinks> LinksOf(const Job& job) const;
  void Retune(Job& job, collective::MeasuredLinks links, const std::string& why);
  static std::optional<RowMeasured> Gather(Job& job,
                                           const std::string& node,
                                           const RowMeasured& told);
  std::string Judge(Job& job, const collective::MeasuredLinks& links, const RowMeasured& measured);
  // `is_changed`: what was measured of this collective and size before counts no more.
  void Learn(Job& job, const collective::Correction& measured, bool is_changed);
  void Recall(Job& job) const;
  void Unlearn(const std::string& node);

  // What agents that attach tell about jobs (membership_adoption.cc).
  void Reconcile(const AgentAttached& event);
  void Adopt(const EpochInfo& claim, const AgentAttached& event);
  void AdoptOther(Job& job, const EpochInfo& claim, const AgentAttached& event);
  void Confirm(Job& job, const EpochInfo& claim, const AgentAttached& event);
  void Displace(Job& job, const EpochInfo& claim, const AgentAttached& event);
  void Install(const EpochInfo& claim, const AgentAttached& event);
  void TellFailed(ConnectionId connection, const EpochInfo& epoch, const EndedRun& run);

  void Log(LogLine::Level level, std::string text);

  const MembershipOptions options_;
  const Random random_;
  std::map<std::string, Agent> agents_;  // by node
  std::map<ConnectionId, std::string> connections_;
  Jobs jobs_;               // by name
  std::vector<Join> held_;  // of the next run, while the ranks of the present one leave
  std::map<JobToken, EndedRun> ended_;
  std::deque<JobToken> ended_order_;  // oldest first
  LinkTable links_;
  // What jobs on the same nodes learned, for those that come.
  std::map<std::set<std::string>, std::vector<collective::Correction>> learned_;
  Survey survey_;
  std::uint64_t generation_;
  MembershipCounters counters_;

  // Of the event in progress.
  TimePoint now_;
  std::vector<Action> actions_;
};

}  // namespace maypole::server
