#include "collective/verify.h"

#include <sstream>
#include <utility>

#include "collective/parts.h"
#include "collective/print.h"
#include "collective/step_graph.h"
#include "collective/sum_table.h"
#include "collective/symbolic_memory.h"

namespace maypole::collective {
namespace {

constexpr std::size_t kStuckStepsShown = 4;

std::string CheckHeads(std::span<const Schedule> schedules) {
  if (schedules.empty()) {
    return "there are no schedules";
  }
  const Schedule& first = schedules.front();
  for (std::size_t member = 0; member < schedules.size(); ++member) {
    const Schedule& schedule = schedules[member];
    if (schedule.self.value() != member || schedule.members != schedules.size()) {
      return "schedule " + std::to_string(member) + " of " + std::to_string(schedules.size()) +
             " says that it is member " + std::to_string(schedule.self.value()) + " of " +
             std::to_string(schedule.members);
    }
    if (schedule.elements != first.elements || schedule.collective != first.collective ||
        schedule.algorithm != first.algorithm) {
      return "members 0 and " + std::to_string(member) +
             " disagree on elements, collective or algorithm";
    }
  }
  return "";
}

std::string BufferProblem(const Step& step) {
  const bool writes = step.kind != StepKind::kSend;
  if (writes && step.target == Buffer::kInput) {
    return "writes the input";
  }
  const bool combines = step.kind != StepKind::kSend && step.kind != StepKind::kReceive;
  if (combines && step.source == Buffer::kResult) {
    return "takes finished elements for unfinished ones";
  }
  if (step.kind == StepKind::kReduce && step.source == Buffer::kPartial) {
    return "adds a partial sum to itself";
  }
  return "";
}

std::string CheckParts(const Schedule& schedule, std::span<const Part> parts) {
  ElementCount end = 0;
  for (const Part& part : parts) {
    const bool is_known = (part.from == kEverybody || part.from < schedule.members) &&
                          (part.to == kEverybody || part.to < schedule.members);
    if (part.range.begin != end || part.range.empty() || !is_known) {
      return "the parts are not in order, or of members that do not exist";
    }
    end = part.range.end;
  }
  return end == schedule.elements ? "" : "the parts do not hold all elements";
}

std::string StepProblem(const Schedule& schedule, std::span<const Part> parts, StepIndex index) {
  const Step& step = schedule.steps[index];
  if (step.range.begin >= step.range.end || step.range.end > schedule.elements) {
    return "has a range that is empty or not inside " + std::to_string(schedule.elements) +
           " elements";
  }
  if (step.range.end > PartAt(parts, step.range.begin).range.end) {
    return "has a range that reaches beyond its part";
  }
  if (IsMessage(step.kind) &&
      (step.peer.value() >= schedule.members || step.peer == schedule.self)) {
    return "has a peer that is itself or does not exist";
  }
  for (const StepIndex before : step.after) {
    if (before != kNoStep && before >= index) {
      return "waits for a step that is not before it in the list";
    }
  }
  return BufferProblem(step);
}

std::string CheckSteps(const Schedule& schedule, std::span<const Part> parts) {
  std::vector<std::uint32_t> sends(schedule.members);
  std::vector<std::uint32_t> receives(schedule.members);
  for (StepIndex index = 0; index < schedule.steps.size(); ++index) {
    const Step& step = schedule.steps[index];
    std::string problem = StepProblem(schedule, parts, index);
    if (problem.empty() && IsMessage(step.kind)) {
      auto& count = step.kind == StepKind::kSend ? sends : receives;
      if (step.ordinal != count[step.peer.value()]++) {
        problem = "has the wrong ordinal";
      }
    }
    if (!problem.empty()) {
      return "member " + std::to_string(schedule.self.value()) + " step " + std::to_string(index) +
             " (" + Print(step) + ") " + problem;
    }
  }
  return "";
}

std::string CheckMessages(const StepGraph& graph, std::span<const Part> parts) {
  for (NodeId node = 0; node < graph.size(); ++node) {
    const Step& step = graph.StepOf(node);
    const NodeId partner = graph.PartnerOf(node);
    if (!IsMessage(step.kind)) {
      continue;
    }
    if (partner == kNoNode) {
      return graph.Describe(node) + " has no counterpart";
    }
    if (step.range != graph.StepOf(partner).range) {
      return graph.Describe(node) + " and " + graph.Describe(partner) + " have different ranges";
    }
    const bool finished_in = step.kind == StepKind::kReceive && step.target == Buffer::kResult;
    const bool finished_out = graph.StepOf(partner).source == Buffer::kResult ||
                              !PartAt(parts, step.range.begin).is_sum();
    if (step.kind != StepKind::kSend && finished_in != finished_out) {
      return graph.Describe(node) + " takes " + (finished_in ? "unfinished" : "finished") +
             " elements from " + graph.Describe(partner);
    }
  }
  return "";
}

// Finds an order in which the steps can run if a send and its receive are one event.
class Ordering {
 public:
  explicit Ordering(const StepGraph& graph)
      : graph_(graph), waits_(graph.size()), executed_(graph.size()) {}

  // The send comes right before its receive. Shorter than the graph if some steps never can run.
  std::vector<NodeId> Run();

  // Who waits for what, after Run().
  std::string DescribeStuck() const;

 private:
  void Announce(NodeId node);
  void Execute(NodeId node);

  const StepGraph& graph_;
  std::vector<std::uint32_t> waits_;  // by node: steps of `after` that have not run
  std::vector<bool> executed_;
  std::vector<NodeId> ready_;
  std::vector<NodeId> order_;
};

std::vector<NodeId> Ordering::Run() {
  for (NodeId node = 0; node < graph_.size(); ++node) {
    waits_[node] = graph_.WaitsOf(node);
  }
  for (NodeId node = 0; node < graph_.size(); ++node) {
    Announce(node);
  }
  while (!ready_.empty()) {
    const NodeId node = ready_.back();
    ready_.pop_back();
    if (executed_[node]) {
      continue;  // both ends of the message announced it
    }
    const NodeId receive = graph_.PartnerOf(node);
    order_.push_back(node);
    if (receive != kNoNode) {
      order_.push_back(receive);
      Execute(receive);
    }
    Execute(node);
  }
  return order_;
}

void Ordering::Announce(NodeId node) {
  const NodeId partner = graph_.PartnerOf(node);
  if (waits_[node] == 0 && (partner == kNoNode || waits_[partner] == 0)) {
    ready_.push_back(IsReceive(graph_.StepOf(node).kind) ? partner : node);
  }
}

void Ordering::Execute(NodeId node) {
  executed_[node] = true;
  for (const NodeId dependent : graph_.DependentsOf(node)) {
    if (--waits_[dependent] == 0) {
      Announce(dependent);
    }
  }
}

std::string Ordering::DescribeStuck() const {
  std::string text = "no step can go on:";
  std::size_t shown = 0;
  for (NodeId node = 0; node < graph_.size() && shown < kStuckStepsShown; ++node) {
    if (executed_[node]) {
      continue;
    }
    text += (shown++ == 0 ? " " : "; ") + graph_.Describe(node) + " waits for";
    for (const StepIndex before : graph_.StepOf(node).after) {
      if (before != kNoStep && !executed_[graph_.NodeOf(graph_.MemberOf(node), before)]) {
        text += " step " + std::to_string(before);
      }
    }
    if (const NodeId partner = graph_.PartnerOf(node); partner != kNoNode) {
      text += " " + graph_.Describe(partner);
    }
  }
  return text;
}

std::vector<SumOrder> DescribeSums(const SymbolicMemory& memory, const SumTable& sums) {
  std::vector<SumOrder> orders;
  const auto& borders = memory.borders();
  for (std::size_t piece = 0; piece + 1 < borders.size(); ++piece) {
    if (piece > 0 && memory.ResultOf(piece) == memory.ResultOf(piece - 1)) {
      orders.back().range.end = borders[piece + 1];
      continue;
    }
    orders.push_back({{borders[piece], borders[piece + 1]}, sums.Text(memory.ResultOf(piece))});
  }
  return orders;
}

// Runs everything symbolically. `verdict` holds the problem or the sums afterwards.
void Execute(const StepGraph& graph,
             std::span<const Schedule> schedules,
             std::span<const Part> parts,
             Verdict& verdict) {
  Ordering ordering(graph);
  const std::vector<NodeId> order = ordering.Run();
  if (order.size() < graph.size()) {
    verdict.problem = ordering.DescribeStuck();
    return;
  }
  SumTable sums(static_cast<std::uint32_t>(schedules.size()));
  SymbolicMemory memory(graph, sums, schedules, parts);
  for (const NodeId node : order) {
    verdict.problem = memory.Execute(node);
    if (!verdict.problem.empty()) {
      return;
    }
  }
  verdict.problem = memory.CheckResults();
  if (verdict.problem.empty()) {
    verdict.sums = DescribeSums(memory, sums);
  }
}

}  // namespace

Verdict VerifySchedules(std::span<const Schedule> schedules, std::span<const Part> parts) {
  Verdict verdict;
  verdict.problem = CheckHeads(schedules);
  std::vector<Part> all_reduce;
  if (verdict.problem.empty() && parts.empty()) {
    all_reduce = PartsOf(Shape{.elements = schedules.front().elements});
    parts = all_reduce;
  }
  if (verdict.problem.empty()) {
    verdict.problem = CheckParts(schedules.front(), parts);
  }
  for (std::size_t member = 0; member < schedules.size() && verdict.problem.empty(); ++member) {
    verdict.problem = CheckSteps(schedules[member], parts);
  }
  if (verdict.problem.empty()) {
    const StepGraph graph(schedules);
    verdict.problem = CheckMessages(graph, parts);
    if (verdict.problem.empty()) {
      Execute(graph, schedules, parts, verdict);
    }
  }
  verdict.ok = verdict.problem.empty();
  return verdict;
}

}  // namespace maypole::collective
