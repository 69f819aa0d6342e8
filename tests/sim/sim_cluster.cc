#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "agent/reduce/work.h"

namespace maypole::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Duration kAtMost = seconds(120);  // of virtual time
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

SimCluster::Options SimCluster::OptionsOf(std::uint64_t seed) {
  Random random(seed * 7919 + 17);
  Options options;
  options.with_errors = random.Chance(0.5);
  const std::uint64_t faults = random.Chance(0.3) ? 0 : random.In(1, 2);
  for (std::uint64_t i = 0; i < faults; ++i) {
    options.faults.push_back(static_cast<Fault>(random.In(0, kFaultCount - 1)));
  }
  return options;
}

SimCluster::SimCluster(std::uint64_t seed) : SimCluster(seed, OptionsOf(seed)) {}

SimCluster::SimCluster(std::uint64_t seed, Options options)
    : seed_(seed),
      options_(std::move(options)),
      tampering_(options_.tampering),
      random_(seed * 1000003 + 1) {
  core_options_.slice_bytes = random_.Chance(0.5) ? 256 : 2048;
  core_options_.local_slice_bytes = 256;
  core_options_.slice_bytes_min = 256;
  core_options_.window_bytes = random_.Chance(0.5) ? 512 : 1 << 20;
  core_options_.default_timeout = seconds(20);
  SimNetwork::Options network;
  network.delay_max = random_.Chance(0.7) ? microseconds(100) : milliseconds(5);
  network.inline_bytes_max = random_.Chance(0.3) ? 0 : random_.In(0, 1024);
  coordinator_delay_ = random_.Chance(0.8) ? milliseconds(5) : milliseconds(500);
  network_ = std::make_unique<SimNetwork>(
      network,
      queue_,
      random_,
      regions_,
      [this](int node, agent::TransportEvent event) {
        OnNode(node, [this, node, event = std::move(event)] {
          nodes_[static_cast<std::size_t>(node)].core->OnTransport(event, queue_.now());
        });
      },
      [this](const std::string& what) { Complain(what); });
  probes_ = random_.Chance(0.5);
  coordinator_ = std::make_unique<SimCoordinator>(
      queue_, random_, coordinator_delay_, server::MembershipOptions{.probe_links = probes_});
  MakeNodes();
  MakeJobs();
}

SimCluster::~SimCluster() {
  for (Node& node : nodes_) {
    node.core.reset();
  }
}

void SimCluster::MakeNodes() {
  nodes_.resize(random_.In(1, 5));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    const int id = static_cast<int>(i);
    node.name = "node-" + std::to_string(i);
    node.memory = std::make_unique<SimMemory>(regions_);
    agent::CoreOptions options = core_options_;
    options.node = node.name;
    options.host = "host-" + std::to_string(i);
    options.incarnation = 1000 + i;
    node.core = std::make_unique<agent::AgentCore>(options, *node.memory);
    const SimCoordinator::Agent agent{
        .node = options.node,
        .incarnation = options.incarnation,
        .host = options.host,
        .data_address = SimNetwork::AddressOf(id),
        .epochs = [core = node.core.get()] { return core->Epochs(); },
        .deliver =
            [this, id](const agent::ControlEvent& event, server::ConnectionId connection) {
              OnNode(id, [this, id, event, connection] {
                coordinator_->Seen(id, connection);
                nodes_[static_cast<std::size_t>(id)].core->OnControl(event, queue_.now());
              });
            },
    };
    queue_.After(random_.Delay(Duration(0), milliseconds(300)),
                 [this, id, agent] { coordinator_->AddAgent(id, agent); });
  }
  queue_.After(random_.Delay(Duration(0), milliseconds(300)), [this] { coordinator_->Start(); });
}

void SimCluster::MakeJobs() {
  jobs_.resize(random_.Chance(0.2) ? 2 : 1);
  if (random_.Chance(0.3)) {
    jobs_.emplace_back().follows = 0;  // a second run under the same name
  }
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    SimJob& job = jobs_[j];
    job.name = "job-" + std::to_string(job.follows.value_or(j));
    std::vector<int> nodes;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      nodes.insert(nodes.end(), random_.In(n == 0 ? 1 : 0, 4), static_cast<int>(n));
    }
    if (random_.Chance(0.3)) {
      random_.Shuffle(nodes);  // ranks of a node are not neighbours
    }
    std::vector<int> distinct = nodes;
    std::sort(distinct.begin(), distinct.end());
    const auto members = static_cast<std::uint32_t>(std::unique(distinct.begin(), distinct.end()) -
                                                    distinct.begin());
    const auto world = static_cast<std::uint32_t>(nodes.size());
    job.ops = MakeOps(random_,
                      world,
                      members,
                      {.slice_elements = core_options_.slice_bytes / 4},
                      options_.with_errors);
    for (std::uint32_t r = 0; r < world; ++r) {
      job.ranks.push_back(ranks_.size());
      SimRank& rank = ranks_.emplace_back();
      rank.job = j;
      rank.rank = Rank(r);
      rank.node = nodes[r];
      rank.session = next_session_++;
      rank.gives_up_after_failure = random_.Chance(0.5);
      sessions_[rank.session] = ranks_.size() - 1;
    }
    for (const std::size_t rank : job.ranks) {
      MakeUses(ranks_[rank]);
    }
  }
  for (std::size_t j = 0; j < jobs_.size(); ++j) {
    StartJob(j);
  }
}

// Once the run that it follows is over.
void SimCluster::StartJob(std::size_t index) {
  const SimJob& job = jobs_[index];
  const auto is_over = [this](std::size_t rank) { return ranks_[rank].released; };
  if (job.follows &&
      !std::all_of(jobs_[*job.follows].ranks.begin(), jobs_[*job.follows].ranks.end(), is_over)) {
    queue_.After(milliseconds(100), [this, index] { StartJob(index); });
    return;
  }
  for (const std::size_t rank : job.ranks) {
    queue_.After(random_.Delay(Duration(0), milliseconds(300)), [this, rank] { Hello(rank); });
  }
}

void SimCluster::MakeUses(SimRank& rank) {
  const SimJob& job = jobs_[rank.job];
  std::vector<std::size_t> order;
  for (std::size_t op = 0; op < job.ops.size(); ++op) {
    if (job.ops[op].forgotten_by != rank.rank.value() && job.ops[op].TakesPart(rank.rank.value())) {
      order.push_back(op);
    }
  }
  random_.Shuffle(order);
  // Uses of the same name keep their order: the occurrence is what matches them.
  for (std::size_t a = 0; a < order.size(); ++a) {
    for (std::size_t b = a + 1; b < order.size(); ++b) {
      if (job.ops[order[a]].name == job.ops[order[b]].name && order[b] < order[a]) {
        std::swap(order[a], order[b]);
      }
    }
  }
  for (const std::size_t index : order) {
    const OpSpec& op = job.ops[index];
    OpUse& use = rank.uses.emplace_back();
    use.op = index;
    use.root = op.root;
    use.elements = op.elements;
    if (op.differs_at == rank.rank.value()) {
      const bool in_root = op.collective == collective::Collective::kBroadcast ||
                           op.collective == collective::Collective::kReduce;
      const auto world = static_cast<std::uint32_t>(job.ranks.size());
      use.root = in_root ? (op.root + 1) % world : op.root;
      use.elements += in_root ? 0 : HasBlocks(op.collective) ? world : 1;
    }
    use.shared = random_.Chance(0.3) && EverybodyGetsAll(op.collective);
    use.overwrite = !use.shared && random_.Chance(0.4);
    use.tensor = MakeInput(random_, op.dtype, use.elements);
    const bool has_output = op.collective == collective::Collective::kAllToAll;
    use.output = std::make_unique<Bytes>(has_output ? use.tensor->size() : 0);
    use.input = std::make_unique<Bytes>(use.tensor->size());
    std::memcpy(use.input->data(), use.tensor->data(), use.input->size());
  }
}

void SimCluster::Run() {
  for (const Fault fault : options_.faults) {
    ScheduleFault(fault);
  }
  const TimePoint end = queue_.now() + kAtMost;
  while (queue_.RunNext(end)) {
    const bool all_over = std::all_of(
        ranks_.begin(), ranks_.end(), [](const SimRank& rank) { return rank.released; });
    if (all_over) {
      break;
    }
  }
  // What is on the way settles; streams to the coordinator stay up.
  const TimePoint settled = queue_.now() + seconds(30);
  while (queue_.RunNext(settled)) {
  }
  // A link may be in the middle of being measured.
  const TimePoint measured = settled + seconds(10);
  const auto is_busy = [](const Node& node) { return !node.dead && node.core->Busy(); };
  while (std::any_of(nodes_.begin(), nodes_.end(), is_busy) && queue_.RunNext(measured)) {
  }
  CheckEnd();
}

// ---- faults

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

// ---- nodes

void SimCluster::OnNode(int id, std::function<void()> what) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  if (node.dead) {
    return;
  }
  if (node.paused) {
    node.inbox.push_back(std::move(what));
    return;
  }
  what();
  Perform(id);
}

void SimCluster::Perform(int id) {
  std::vector<agent::Action> actions = nodes_[static_cast<std::size_t>(id)].core->TakeActions();
  Tamper(actions);
  for (agent::Action& action : actions) {
    std::visit([&](auto& a) { Do(id, a); }, action);
  }
  ScheduleTick(id);
}

void SimCluster::ScheduleTick(int id) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  const TimePoint at = node.core->NextTick();
  if (at == node.tick_at) {
    return;
  }
  node.tick_at = at;
  if (at == kNever) {
    ++node.tick;
    return;
  }
  queue_.At(at, [this, id, tick = ++node.tick] {
    if (nodes_[static_cast<std::size_t>(id)].tick == tick) {
      OnNode(id, [this, id] {
        Node& ticking = nodes_[static_cast<std::size_t>(id)];
        ticking.tick_at = kNever;
        ticking.core->OnTick(queue_.now());
      });
    }
  });
}

void SimCluster::Do(int node, agent::DropPayload& action) {
  if (!std::exchange(tampering_.keep_arrival, false)) {
    network_->Drop(node, action.arrival);
  }
}

void SimCluster::Do(int id, agent::RunWork& action) {
  if (const auto fault = faults_by_work_.find(++works_); fault != faults_by_work_.end()) {
    queue_.After(random_.Delay(Duration(0), microseconds(200)),
                 [this, fault = fault->second] { Strike(fault); });
  }
  queue_.After(random_.Delay(Duration(1), microseconds(500)), [this, id, run = action] {
    OnNode(id, [this, id, run] {
      for (const agent::Operand& operand : run.work.inputs) {
        if (!regions_.Contains(operand.buffer)) {
          Complain("work reads memory that is not the agent's");
          return;
        }
      }
      for (const agent::Operand& operand : run.work.outputs) {
        if (!regions_.Contains(operand.buffer)) {
          Complain("work writes memory that is not the agent's");
          return;
        }
      }
      const bool is_restore = run.work.outputs.empty() && !run.work.saves.empty();
      if (!is_restore || !std::exchange(tampering_.skip_restore, false)) {
        ReduceReference(run.work);
      }
      nodes_[static_cast<std::size_t>(id)].core->OnWorkDone(run.token, queue_.now());
    });
  });
}

// ---- ranks

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
