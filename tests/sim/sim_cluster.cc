#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agent/reduce/work.h"

namespace maypole::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr Duration kAtMost = seconds(120);  // of virtual time

}  // namespace

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

}  // namespace maypole::sim
