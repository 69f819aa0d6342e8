// What the ranks do: join, submit, take results, leave.
#include <algorithm>
#include <utility>

#include "tests/sim/sim_cluster.h"

namespace maypole::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr int kRefusalsMax = 40;
constexpr std::byte kWrittenOver{0xee};

// What a rank does with a tensor once its op has ended.
void WriteOver(OpUse& use) {
  std::fill_n(use.tensor->data(), use.tensor->size(), kWrittenOver);
  std::fill_n(use.output->data(), use.output->size(), kWrittenOver);
}

bool IsWrittenOver(const OpUse& use) {
  const auto is_written_over = [](const Bytes& bytes) {
    return std::all_of(bytes.data(), bytes.data() + bytes.size(), [](std::byte byte) {
      return byte == kWrittenOver;
    });
  };
  return is_written_over(*use.tensor) && is_written_over(*use.output);
}

}  // namespace

SimCluster::SimRank* SimCluster::RankOf(agent::SessionId session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &ranks_[found->second];
}

void SimCluster::Hello(std::size_t index) {
  const SimRank& rank = ranks_[index];
  const SimJob& job = jobs_[rank.job];
  OnNode(rank.node, [this, &rank, &job] {
    nodes_[static_cast<std::size_t>(rank.node)].core->OnClient(
        agent::ClientHello{.session = rank.session,
                           .job = job.name,
                           .rank = rank.rank,
                           .world_size = static_cast<std::uint32_t>(job.ranks.size()),
                           .pid = 4711},
        queue_.now());
  });
  queue_.After(seconds(25), [this, index, session = rank.session] {
    if (!ranks_[index].ready && ranks_[index].session == session) {
      Close(index, "gave up waiting for the job");
    }
  });
}

void SimCluster::Do(int, agent::AnswerHello& action) {
  if (!action.outcome.ok()) {
    Complain("a rank was refused: " + action.outcome.text);
  }
}

void SimCluster::Do(int, agent::SessionReady& action) {
  SimRank* rank = RankOf(action.session);
  if (rank == nullptr || rank->gone) {
    return;
  }
  if (!action.outcome.ok()) {
    // Its last run may be still ending, as far as the coordinator knows.
    if (jobs_[rank->job].follows && ++rank->refusals < kRefusalsMax) {
      const std::size_t index = sessions_.at(action.session);
      rank->session = next_session_++;
      sessions_[rank->session] = index;
      queue_.After(milliseconds(500), [this, index] { Hello(index); });
      return;
    }
    if (options_.faults.empty()) {
      Complain("a rank was refused: " + action.outcome.text);
    }
    rank->gone = true;
    return;
  }
  if (std::exchange(rank->ready, true)) {
    Complain("a session was made ready twice");
  }
  Epoch& newest = epochs_[action.token];
  if (action.epoch < newest) {
    Complain("an epoch went back");
  }
  newest = action.epoch;
  for (const OpUse& use : rank->uses) {
    for (const Bytes* bytes : {use.tensor.get(), use.output.get()}) {
      regions_.Add({.address = bytes->data(), .bytes = std::max<std::uint64_t>(1, bytes->size())});
    }
  }
  const std::size_t index = sessions_.at(action.session);
  queue_.After(random_.Delay(Duration(0), milliseconds(10)), [this, index] { SubmitNext(index); });
}

void SimCluster::SubmitNext(std::size_t index) {
  SimRank& rank = ranks_[index];
  if (rank.gone || (rank.failed && rank.gives_up_after_failure)) {
    CloseIfDone(index);
    return;
  }
  if (rank.next == rank.uses.size()) {
    CloseIfDone(index);
    return;
  }
  OpUse& use = rank.uses[rank.next];
  while (rank.slots.contains(use.slot)) {
    ++use.slot;
  }
  rank.slots[use.slot] = rank.next++;
  use.submitted = queue_.now();
  const OpSpec& op = jobs_[rank.job].ops[use.op];
  agent::Submission submission{.session = rank.session,
                               .slot = use.slot,
                               .name = op.name,
                               .collective = op.collective,
                               .algorithm = op.algorithm,
                               .dtype = op.dtype,
                               .reduction = op.reduction,
                               .shared_result = use.shared,
                               .overwrite = use.overwrite,
                               .priority = op.priority,
                               .elements = use.elements,
                               .tensor = use.tensor->view(),
                               .root = Rank(use.root),
                               .peer = Rank(op.peer),
                               .counts = op.counts,
                               .output = use.output->view(),
                               .timeout = op.timeout};
  if (!submission.counts.empty()) {
    submission.counts.back() += use.elements - op.elements;
  }
  queue_.After(random_.Delay(Duration(0), milliseconds(20)), [this, index] { SubmitNext(index); });
  OnNode(rank.node, [this, id = rank.node, submission] {
    nodes_[static_cast<std::size_t>(id)].core->OnClient(submission, queue_.now());
  });
}

void SimCluster::CloseIfDone(std::size_t index) {
  SimRank& rank = ranks_[index];
  const bool submits =
      rank.next < rank.uses.size() && !(rank.failed && rank.gives_up_after_failure);
  if (rank.gone || !rank.ready || submits || !rank.slots.empty()) {
    return;
  }
  const Duration delay = random_.Delay(Duration(0), random_.Chance(0.1) ? seconds(5) : seconds(0));
  queue_.After(delay, [this, index] { Close(index, "closed its session"); });
}

void SimCluster::Close(std::size_t index, const std::string& reason) {
  SimRank& rank = ranks_[index];
  if (std::exchange(rank.gone, true)) {
    return;
  }
  OnNode(rank.node, [this, id = rank.node, session = rank.session, reason] {
    nodes_[static_cast<std::size_t>(id)].core->OnClient(agent::ClientGone{session, false, reason},
                                                        queue_.now());
  });
}

void SimCluster::Do(int, agent::FailSession& action) {
  SimRank* rank = RankOf(action.session);
  if (rank != nullptr && !rank->gone) {
    rank->failed = true;
    // The client's waits have ended, so its tensors are its own again.
    for (const auto& [slot, index] : rank->slots) {
      OpUse& use = rank->uses[index];
      CheckRestored(*rank, use);
      WriteOver(use);
      use.given_up = true;
    }
    CloseIfDone(sessions_.at(action.session));
  }
}

void SimCluster::Do(int, agent::ReleaseSession& action) {
  SimRank* rank = RankOf(action.session);
  if (rank == nullptr || rank->session != action.session) {
    return;  // of an attempt that was refused
  }
  if (!rank->gone) {
    Complain("a session was released before it was gone");
  }
  if (std::exchange(rank->released, true)) {
    return;
  }
  for (const OpUse& use : rank->uses) {
    if (rank->ready) {
      regions_.Remove(use.tensor->data());
      regions_.Remove(use.output->data());
    }
  }
}

void SimCluster::Do(int, agent::CompleteOp& action) {
  SimRank* rank = RankOf(action.session);
  if (rank == nullptr || rank->gone) {
    return;
  }
  const auto slot = rank->slots.find(action.slot);
  if (slot == rank->slots.end()) {
    Complain("an op was completed that is not in flight: slot " + std::to_string(action.slot) +
             ", " + action.outcome.text);
    return;
  }
  OpUse& use = rank->uses[slot->second];
  rank->slots.erase(slot);
  use.completed = queue_.now();
  use.outcome = action.outcome;
  if (!use.given_up) {
    TakeResult(*rank, use, action);
  } else if (use.outcome.ok() || !IsWrittenOver(use)) {
    Complain("an op went on after its session had been failed, slot " +
             std::to_string(action.slot));
  }
  CloseIfDone(sessions_.at(action.session));
}

// From here on the tensor is the rank's own again, which writes over it.
void SimCluster::TakeResult(SimRank& rank, OpUse& use, const agent::CompleteOp& action) {
  ++outcomes_[use.outcome.code];
  if (use.outcome.ok()) {
    const bool is_apart = use.output->size() > 0;
    const agent::BufferView from = use.shared ? action.result.view
                                   : is_apart ? use.output->view()
                                              : use.tensor->view();
    use.result.assign(from.address, from.address + from.bytes);
  }
  if (use.shared || use.output->size() > 0 || !use.outcome.ok()) {
    CheckRestored(rank, use);
  }
  if (use.shared && use.outcome.ok()) {
    queue_.After(random_.Delay(Duration(0), milliseconds(2)),
                 [this, id = rank.node, session = action.session, slot = action.slot] {
                   OnNode(id, [this, id, session, slot] {
                     nodes_[static_cast<std::size_t>(id)].core->OnClient(
                         agent::ResultReleased{session, slot}, queue_.now());
                   });
                 });
  }
  WriteOver(use);
}

}  // namespace maypole::sim
