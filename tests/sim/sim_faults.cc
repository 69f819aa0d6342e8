// What breaks, and when.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/sim/sim_cluster.h"

namespace maypole::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

const char* Name(Fault fault) {
  switch (fault) {
    case Fault::kKillAgent:
      return "kill an agent";
    case Fault::kCutAgent:
      return "cut an agent off";
    case Fault::kCutPair:
      return "cut two agents from each other";
    case Fault::kCutAndHeal:
      return "cut an agent off for a while";
    case Fault::kPauseAgent:
      return "pause an agent";
    case Fault::kKillRank:
      return "kill a rank";
    case Fault::kLeaveEarly:
      return "a rank leaves early";
    case Fault::kRestartCoordinator:
      return "restart the coordinator";
    case Fault::kNoResultMemory:
      return "no memory for results";
    case Fault::kNoScratch:
      return "no memory for partial sums";
  }
  return "?";
}

// At any time, or in the middle of the work of some op.
void SimCluster::ScheduleFault(Fault fault) {
  if (random_.Chance(0.6)) {
    faults_by_work_[random_.In(1, random_.Chance(0.5) ? 50 : 500)] = fault;
    return;
  }
  const Duration latest = random_.Chance(0.8) ? milliseconds(400) : seconds(4);
  queue_.After(Duration(static_cast<std::int64_t>(
                   random_.In(0, static_cast<std::uint64_t>(latest.count())))),
               [this, fault] { Strike(fault); });
}

void SimCluster::Strike(Fault fault) {
  const int victim = static_cast<int>(random_.In(0, nodes_.size() - 1));
  const auto disturb = [&] {
    for (SimJob& job : jobs_) {
      job.disturbed = true;
    }
  };
  switch (fault) {
    case Fault::kKillAgent:
      KillAgent(victim);
      return;
    case Fault::kCutPair:
      Cut(victim, {static_cast<int>(random_.In(0, nodes_.size() - 1))});
      return;
    case Fault::kCutAgent:
    case Fault::kCutAndHeal: {
      std::vector<int> all(nodes_.size());
      std::iota(all.begin(), all.end(), 0);
      Cut(victim, all);
      if (fault == Fault::kCutAndHeal) {
        disturb();
        queue_.After(milliseconds(random_.In(10, 6000)), [this] { network_->HealAll(); });
      }
      return;
    }
    case Fault::kPauseAgent:
      disturb();
      Pause(victim, milliseconds(random_.In(10, 6000)));
      return;
    case Fault::kKillRank:
    case Fault::kLeaveEarly:
      LoseRank(ranks_[random_.In(0, ranks_.size() - 1)], fault == Fault::kKillRank);
      return;
    case Fault::kRestartCoordinator:
      coordinator_->Kill();
      queue_.After(milliseconds(random_.In(1, 15000)), [this] { coordinator_->Start(); });
      return;
    case Fault::kNoResultMemory:
      nodes_[static_cast<std::size_t>(victim)].memory->RefuseResults(2);
      return;
    case Fault::kNoScratch:
      nodes_[static_cast<std::size_t>(victim)].memory->RefuseScratch(2);
      return;
  }
}

void SimCluster::Cut(int node, const std::vector<int>& others) {
  const auto has = [this](const SimJob& job, int at) {
    return std::any_of(
        job.ranks.begin(), job.ranks.end(), [&](std::size_t r) { return ranks_[r].node == at; });
  };
  for (const int other : others) {
    if (other == node) {
      continue;
    }
    network_->Cut(node, other);
    for (SimJob& job : jobs_) {
      if (has(job, node) && has(job, other)) {
        job.silences.insert(queue_.now());
      }
    }
  }
}

void SimCluster::KillAgent(int id) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  if (std::exchange(node.dead, true)) {
    return;
  }
  network_->Kill(id);
  coordinator_->RemoveAgent(id);
  for (SimRank& rank : ranks_) {
    if (rank.node == id) {
      rank.gone = true;
      rank.released = true;
      SimJob& job = jobs_[rank.job];
      job.process_death = std::min(job.process_death.value_or(queue_.now()), queue_.now());
    }
  }
}

void SimCluster::Pause(int id, Duration duration) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  if (std::exchange(node.paused, true)) {
    return;
  }
  paused_for_ += duration;
  queue_.After(duration, [this, id] {
    Node& resumed = nodes_[static_cast<std::size_t>(id)];
    resumed.paused = false;
    for (const auto& what : std::exchange(resumed.inbox, {})) {
      OnNode(id, what);
    }
  });
}

void SimCluster::LoseRank(SimRank& rank, bool died) {
  if (rank.gone || !rank.ready) {
    return;
  }
  rank.gone = true;
  if (died) {
    SimJob& job = jobs_[rank.job];
    job.process_death = std::min(job.process_death.value_or(queue_.now()), queue_.now());
  }
  queue_.After(random_.Delay(Duration(1), milliseconds(50)), [this, &rank, died] {
    OnNode(rank.node, [this, &rank, died] {
      nodes_[static_cast<std::size_t>(rank.node)].core->OnClient(
          agent::ClientGone{
              rank.session, died, died ? "its process ended (pid 4711)" : "closed its session"},
          queue_.now());
    });
  });
}

}  // namespace maypole::sim
