// A whole cluster in one thread under virtual time: real agent cores, the real coordinator core,
// simulated ranks, memory and network, and a seed that decides sizes, orders, delays and what
// breaks. After the run `violations()` names every promise that was not kept.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/engine/agent_core.h"
#include "tests/sim/reference.h"
#include "tests/sim/sim_coordinator.h"
#include "tests/sim/sim_memory.h"
#include "tests/sim/sim_network.h"

namespace maypole::sim {

enum class Fault {
  kKillAgent,
  kCutAgent,    // silent for good
  kCutPair,     // two agents from each other, for good
  kCutAndHeal,  // silent for up to twice the lease
  kPauseAgent,  // stopped, up to twice the lease
  kKillRank,
  kLeaveEarly,  // a rank closes its session with ops in flight
  kRestartCoordinator,
  kNoResultMemory,
  kNoScratch,
};
inline constexpr int kFaultCount = 10;
const char* Name(Fault fault);

// Ways to break the core's promises from outside: the tests of the checkers.
struct Tampering {
  bool corrupt_payload = false;
  bool drop_completion = false;
  bool double_completion = false;
  bool complete_early = false;
  bool skip_restore = false;
  bool skip_scratch_free = false;
  bool keep_arrival = false;
  bool drop_release = false;
  bool other_mismatch_text = false;
};

class SimCluster {
 public:
  struct Options {
    bool with_errors = true;    // mismatches, ops that a rank never submits
    std::vector<Fault> faults;  // what breaks, besides
    Tampering tampering;
  };

  // Options by the seed too.
  explicit SimCluster(std::uint64_t seed);
  SimCluster(std::uint64_t seed, Options options);
  ~SimCluster();

  void Run();

  const std::vector<std::string>& violations() const { return violations_; }

  // What the run was, for a person.
  std::string Describe() const;

  // How the ops of all ranks ended.
  using Outcomes = std::map<ErrorCode, std::uint64_t>;

  const Outcomes& outcomes() const { return outcomes_; }

 private:
  struct Node {
    std::string name;
    std::unique_ptr<SimMemory> memory;
    std::unique_ptr<agent::AgentCore> core;
    bool dead = false;
    bool paused = false;
    std::deque<std::function<void()>> inbox;  // while paused
    std::uint64_t tick = 0;                   // of the newest tick scheduled
    TimePoint tick_at = kNever;
  };

  struct SimRank {
    std::size_t job = 0;
    Rank rank{0};
    int node = 0;
    agent::SessionId session = 0;
    bool ready = false;
    int refusals = 0;
    bool gone = false;  // nothing more is promised to it
    bool released = false;
    bool failed = false;  // FailSession came
    bool gives_up_after_failure = false;
    std::vector<OpUse> uses;  // in its own order
    std::size_t next = 0;
    std::map<std::uint32_t, std::size_t> slots;  // in use -> index of the use
  };

  struct SimJob {
    std::string name;
    std::vector<OpSpec> ops;
    std::vector<std::size_t> ranks;      // indices into ranks_, by rank
    std::optional<std::size_t> follows;  // the job whose name it uses again
    std::optional<TimePoint> process_death;
    std::set<TimePoint> silences;  // when two of its agents were cut from each other
    bool disturbed = false;        // by something for which no short bound is promised
  };

  static Options OptionsOf(std::uint64_t seed);
  void MakeNodes();
  void MakeJobs();
  void StartJob(std::size_t index);
  void MakeUses(SimRank& rank);

  // sim_faults.cc
  void ScheduleFault(Fault fault);
  void Strike(Fault fault);
  void KillAgent(int node);
  void Cut(int node, const std::vector<int>& others);
  void Pause(int node, Duration duration);
  void LoseRank(SimRank& rank, bool died);

  // Runs `what` on a node and carries out what its core decides, now or when the node runs again.
  void OnNode(int node, std::function<void()> what);
  void Perform(int node);
  void Tamper(std::vector<agent::Action>& actions);
  void ScheduleTick(int node);

  void Do(int node, agent::ConnectPeer& action) { network_->Connect(node, action); }

  void Do(int node, agent::DisconnectPeer& action) { network_->Disconnect(node, action.peer); }

  void Do(int node, agent::SendFrame& action) { network_->Send(node, std::move(action)); }

  void Do(int node, agent::ReceivePayload& action) { network_->Receive(node, action); }

  void Do(int node, agent::DropPayload& action);
  void Do(int node, agent::RunWork& action);

  void Do(int node, agent::TellCoordinator& action) { coordinator_->Tell(node, action.message); }

  void Do(int, agent::OpFinished&) {}

  void Do(int, agent::LogLine&) {}

  // sim_ranks.cc
  void Do(int node, agent::AnswerHello& action);
  void Do(int node, agent::SessionReady& action);
  void Do(int node, agent::CompleteOp& action);
  void Do(int node, agent::FailSession& action);
  void Do(int node, agent::ReleaseSession& action);
  void Hello(std::size_t rank);
  void SubmitNext(std::size_t rank);
  void CloseIfDone(std::size_t rank);
  void Close(std::size_t rank, const std::string& reason);
  SimRank* RankOf(agent::SessionId session);
  void TakeResult(SimRank& rank, OpUse& use, const agent::CompleteOp& action);

  // checks.cc
  void Complain(const std::string& what);
  // The member of each rank: nodes in the order of their lowest ranks.
  collective::Placement PlacementOf(const SimJob& job) const;
  void CheckRestored(const SimRank& rank, const OpUse& use);
  void CheckEnd();
  void CheckAnswers(const SimJob& job);
  void CheckBounds(const SimJob& job, const SimRank& rank, const OpUse& use);
  void CheckOp(const SimJob& job, std::size_t op);
  void CheckOutcomes(const SimJob& job, std::size_t op, const std::vector<const OpUse*>& uses);
  void CheckNode(const Node& node, int id);
  std::string DescribeUse(const SimRank& rank, const OpUse& use) const;

  const std::uint64_t seed_;
  const Options options_;
  Tampering tampering_;
  Random random_;
  EventQueue queue_;
  Regions regions_;
  agent::CoreOptions core_options_;
  Duration coordinator_delay_{};
  bool probes_ = false;  // links are measured, and choose algorithms
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<Node> nodes_;
  std::vector<SimRank> ranks_;
  std::vector<SimJob> jobs_;
  std::map<agent::SessionId, std::size_t> sessions_;
  std::map<JobToken, Epoch> epochs_;
  agent::SessionId next_session_ = 1;
  std::map<std::uint64_t, Fault> faults_by_work_;  // strike with the n-th work
  std::uint64_t works_ = 0;
  std::vector<std::string> violations_;
  Duration paused_for_{0};
  Outcomes outcomes_;
};

}  // namespace maypole::sim
