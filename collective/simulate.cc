#include "collective/simulate.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "collective/fabric.h"
#include "collective/make.h"
#include "collective/step_graph.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

enum class EventKind : std::uint8_t { kStepDone, kPortFree, kArrives, kDelivered, kWindowOpens };

struct Event {
  double time;
  std::uint64_t sequence;
  EventKind kind;
  NodeId node;  // kPortFree: any step of the member; the others: the step, of a message its send

  friend bool operator>(const Event& left, const Event& right) {
    return std::pair(left.time, left.sequence) > std::pair(right.time, right.sequence);
  }
};

// The messages of a member to one peer.
struct Lane {
  std::uint32_t on_the_way = 0;
  MinHeap<NodeId> held;  // ready, but the window is full
};

struct MemberState {
  std::vector<double> ports_in_free;  // by rail
  double summing_free = 0;
  std::uint32_t sending = 0;  // messages in the ports out
  MinHeap<NodeId> ready;      // sends, the first in the list first
  std::unordered_map<std::uint32_t, Lane> lanes;
};

class Run {
 public:
  Run(std::span<const Schedule> schedules,
      const Symmetry& symmetry,
      const Network& network,
      const SimulationOptions& options);

  Simulation Finish();

 private:
  void Post(double time, EventKind kind, NodeId node);
  void Handle(const Event& event);
  void Wake(NodeId node);
  void OnReady(NodeId node);
  void OnStepDone(NodeId node);
  void OnArrives(NodeId send);
  void OnDelivered(NodeId send);
  void OnWindowOpens(NodeId send);
  void SendNext(Member member);
  void Transmit(NodeId send);
  std::uint64_t BytesOf(const Step& send) const;

  MemberState& StateOf(Member member) { return members_[member.value()]; }

  // The member that takes what `step` sends, or its representative.
  Member ReceiverOf(const Step& step) const { return symmetry_.RepresentativeOf(step.peer); }

  const Symmetry symmetry_;
  const StepGraph graph_;
  const std::uint32_t rails_;
  Fabric fabric_;
  const SimulationOptions& options_;
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  MinHeap<Event> events_;
  std::vector<MemberState> members_;
  std::vector<std::uint32_t> waits_;   // by node: steps and messages that are still to come
  std::vector<std::uint32_t> rounds_;  // by node: messages that had to come first
  std::vector<double> tail_arrives_;   // by node: of a send on the way
  NodeId done_ = 0;
  std::vector<bool> is_done_;
  Simulation result_;
};

Run::Run(std::span<const Schedule> schedules,
         const Symmetry& symmetry,
         const Network& network,
         const SimulationOptions& options)
    : symmetry_(symmetry),
      graph_(schedules, symmetry),
      rails_(network.link.rails),
      fabric_(network, symmetry),
      options_(options),
      members_(schedules.size(), {.ports_in_free = std::vector<double>(network.link.rails)}),
      waits_(graph_.size()),
      rounds_(graph_.size()),
      tail_arrives_(graph_.size()),
      is_done_(graph_.size()) {
  MAYPOLE_CHECK(options.window > 0);
  result_.bytes_sent.resize(schedules.size());
  result_.bytes_received.resize(schedules.size());
  result_.member_seconds.resize(schedules.size());
}

void Run::Post(double time, EventKind kind, NodeId node) {
  events_.push({time, sequence_++, kind, node});
}

Simulation Run::Finish() {
  for (NodeId node = 0; node < graph_.size(); ++node) {
    waits_[node] = graph_.WaitsOf(node) + (IsReceive(graph_.StepOf(node).kind) ? 1 : 0);
  }
  for (NodeId node = 0; node < graph_.size(); ++node) {
    if (waits_[node] == 0) {
      OnReady(node);
    }
  }
  for (std::uint32_t member = 0; member < members_.size(); ++member) {
    SendNext(Member(member));
  }
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.time;
    Handle(event);
  }
  result_.finished = done_ == graph_.size();
  for (NodeId node = 0; node < graph_.size() && result_.problem.empty(); ++node) {
    if (!is_done_[node]) {
      result_.problem = graph_.Describe(node) + " waits for ever";
    }
  }
  return std::move(result_);
}

void Run::Handle(const Event& event) {
  switch (event.kind) {
    case EventKind::kStepDone:
      OnStepDone(event.node);
      break;
    case EventKind::kPortFree:
      --StateOf(graph_.MemberOf(event.node)).sending;
      OnStepDone(event.node);
      break;
    case EventKind::kArrives:
      OnArrives(event.node);
      break;
    case EventKind::kDelivered:
      OnDelivered(event.node);
      break;
    case EventKind::kWindowOpens:
      OnWindowOpens(event.node);
      break;
  }
  SendNext(graph_.MemberOf(event.node));
}

void Run::Wake(NodeId node) {
  if (--waits_[node] == 0) {
    OnReady(node);
  }
}

// Sends queue for the port; the others begin at once, or when the member has finished its earlier
// sums.
void Run::OnReady(NodeId node) {
  const Step& step = graph_.StepOf(node);
  MemberState& state = StateOf(graph_.MemberOf(node));
  if (step.kind == StepKind::kSend) {
    state.ready.push(node);
    return;
  }
  double end = now_;
  if (step.kind != StepKind::kReceive && options_.seconds_per_element > 0) {
    const double duration = static_cast<double>(step.range.size()) * options_.seconds_per_element *
                            fabric_.SlownessOf(graph_.MemberOf(node));
    end = std::max(now_, state.summing_free) + duration;
    state.summing_free = end;
  }
  Post(end, EventKind::kStepDone, node);
}

void Run::OnStepDone(NodeId node) {
  const Member member = graph_.MemberOf(node);
  ++done_;
  is_done_[node] = true;
  result_.member_seconds[member.value()] = now_;
  result_.seconds = now_;
  result_.rounds = std::max(result_.rounds, rounds_[node]);
  for (const NodeId dependent : graph_.DependentsOf(node)) {
    rounds_[dependent] = std::max(rounds_[dependent], rounds_[node]);
    Wake(dependent);
  }
}

// The head is at the receiver's port.
void Run::OnArrives(NodeId send) {
  const Step& step = graph_.StepOf(send);
  const Member receiver = ReceiverOf(step);
  auto& ports = StateOf(receiver).ports_in_free;
  double& free = *std::min_element(ports.begin(), ports.end());
  const double begin = std::max(now_, free);
  free = std::max(tail_arrives_[send], begin + fabric_.PortSeconds(BytesOf(step), receiver));
  Post(free, EventKind::kDelivered, send);
}

void Run::OnDelivered(NodeId send) {
  const Step& step = graph_.StepOf(send);
  result_.bytes_received[ReceiverOf(step).value()] += BytesOf(step);
  if (const NodeId receive = graph_.PartnerOf(send); receive != kNoNode) {
    rounds_[receive] = std::max(rounds_[receive], rounds_[send] + 1);
    Wake(receive);
  }
  Post(now_ + fabric_.Latency(graph_.MemberOf(send), step.peer), EventKind::kWindowOpens, send);
}

void Run::OnWindowOpens(NodeId send) {
  MemberState& state = StateOf(graph_.MemberOf(send));
  Lane& lane = state.lanes[graph_.StepOf(send).peer.value()];
  --lane.on_the_way;
  if (!lane.held.empty()) {
    state.ready.push(lane.held.top());
    lane.held.pop();
  }
}

void Run::SendNext(Member member) {
  MemberState& state = StateOf(member);
  while (state.sending < rails_ && !state.ready.empty()) {
    const NodeId send = state.ready.top();
    state.ready.pop();
    Lane& lane = state.lanes[graph_.StepOf(send).peer.value()];
    if (lane.on_the_way == options_.window) {
      lane.held.push(send);
      continue;
    }
    ++lane.on_the_way;
    ++state.sending;
    Transmit(send);
  }
}

void Run::Transmit(NodeId send) {
  const Step& step = graph_.StepOf(send);
  const Member from = graph_.MemberOf(send);
  const std::uint64_t bytes = BytesOf(step);
  result_.bytes_sent[from.value()] += bytes;
  const double port_end = now_ + fabric_.PortSeconds(bytes, from);
  const Train train = fabric_.Carry({now_, port_end}, from, step.peer, bytes);
  const double latency = fabric_.Latency(from, step.peer);
  tail_arrives_[send] = train.tail + latency;
  Post(port_end, EventKind::kPortFree, send);
  Post(train.head + latency, EventKind::kArrives, send);
}

std::uint64_t Run::BytesOf(const Step& send) const {
  const std::uint32_t element_bytes =
      send.source == Buffer::kResult ? options_.result_bytes : options_.accumulator_bytes;
  return send.range.size() * element_bytes + options_.header_bytes;
}

}  // namespace

Simulation Simulate(std::span<const Schedule> schedules,
                    const Network& network,
                    const SimulationOptions& options) {
  const auto members = static_cast<std::uint32_t>(schedules.size());
  return Run(schedules, Symmetry::None(members), network, options).Finish();
}

Simulation SimulateAllReduce(Algorithm algorithm,
                             const Shape& shape,
                             const Network& network,
                             const SimulationOptions& options) {
  const Symmetry symmetry = FindSymmetry(algorithm, shape, network);
  std::vector<Schedule> schedules;
  for (std::uint32_t member = 0; member < symmetry.period; ++member) {
    Shape own = shape;
    own.self = Member(member);
    schedules.push_back(MakeSchedule(algorithm, own));
  }
  return Run(schedules, symmetry, network, options).Finish();
}

}  // namespace maypole::collective
