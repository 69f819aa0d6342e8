#include "collective/step_graph.h"

#include <algorithm>
#include <compare>

#include "collective/print.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

// One end of a message; the two ends have equal keys.
struct End {
  std::uint32_t from;
  std::uint32_t to;
  std::uint32_t ordinal;
  NodeId node;

  bool SameMessage(const End& other) const {
    return from == other.from && to == other.to && ordinal == other.ordinal;
  }

  friend auto operator<=>(const End&, const End&) = default;
};

}  // namespace

StepGraph::StepGraph(std::span<const Schedule> schedules, const Symmetry& symmetry)
    : schedules_(schedules) {
  MAYPOLE_CHECK(schedules.size() == symmetry.period);
  std::size_t total = 0;
  first_.push_back(0);
  for (const Schedule& schedule : schedules) {
    total += schedule.steps.size();
    MAYPOLE_CHECK(total < kNoNode);
    first_.push_back(static_cast<NodeId>(total));
  }
  member_of_.reserve(total);
  for (std::uint32_t member = 0; member < schedules.size(); ++member) {
    member_of_.insert(member_of_.end(), schedules[member].steps.size(), member);
  }
  LinkDependents();
  PairMessages(symmetry);
}

void StepGraph::LinkDependents() {
  dependents_begin_.assign(size() + 1, 0);
  const auto for_each_edge = [&](auto visit) {
    for (NodeId node = 0; node < size(); ++node) {
      for (const StepIndex before : StepOf(node).after) {
        if (before != kNoStep) {
          visit(NodeOf(MemberOf(node), before), node);
        }
      }
    }
  };
  for_each_edge([&](NodeId before, NodeId) { ++dependents_begin_[before + 1]; });
  for (NodeId node = 0; node < size(); ++node) {
    dependents_begin_[node + 1] += dependents_begin_[node];
  }
  dependents_.resize(dependents_begin_.back());
  std::vector<std::uint32_t> next(dependents_begin_.begin(), dependents_begin_.end() - 1);
  for_each_edge([&](NodeId before, NodeId node) { dependents_[next[before]++] = node; });
}

void StepGraph::PairMessages(const Symmetry& symmetry) {
  partner_.assign(size(), kNoNode);
  std::vector<End> sends;
  std::vector<End> receives;
  for (NodeId node = 0; node < size(); ++node) {
    const Step& step = StepOf(node);
    const std::uint32_t self = member_of_[node];
    if (step.kind == StepKind::kSend) {
      sends.push_back({symmetry.SeenBy(step.peer, Member(self)).value(),
                       symmetry.RepresentativeOf(step.peer).value(),
                       step.ordinal,
                       node});
    } else if (IsReceive(step.kind)) {
      receives.push_back({step.peer.value(), self, step.ordinal, node});
    }
  }
  std::sort(sends.begin(), sends.end());
  std::sort(receives.begin(), receives.end());
  auto receive = receives.begin();
  for (const End& send : sends) {
    while (receive != receives.end() && *receive < send && !receive->SameMessage(send)) {
      ++receive;
    }
    if (receive != receives.end() && receive->SameMessage(send)) {
      partner_[send.node] = receive->node;
      partner_[receive->node] = send.node;
      ++receive;
    }
  }
}

std::uint32_t StepGraph::WaitsOf(NodeId node) const {
  const auto& after = StepOf(node).after;
  return static_cast<std::uint32_t>(after.size()) -
         static_cast<std::uint32_t>(std::count(after.begin(), after.end(), kNoStep));
}

std::span<const NodeId> StepGraph::DependentsOf(NodeId node) const {
  const auto begin = dependents_begin_[node];
  return std::span(dependents_).subspan(begin, dependents_begin_[node + 1] - begin);
}

std::string StepGraph::Describe(NodeId node) const {
  return "member " + std::to_string(member_of_[node]) + " step " + std::to_string(IndexOf(node)) +
         " (" + Print(StepOf(node)) + ")";
}

}  // namespace maypole::collective
