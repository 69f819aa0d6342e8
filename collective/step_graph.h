// The steps of all members as one graph: which step waits for which, and which receive takes which
// send.
//
// Pure. Shared by the verifier and the simulator. A node is one step of one member; with a
// symmetry, of one representative, whose message to another member's peer is taken by that peer's
// representative. The graph borrows the schedules, which must outlive it; their `after`, `peer` and
// `members` must be valid (the form checks of verify.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collective/schedule.h"
#include "collective/symmetry.h"

namespace maypole::collective {

using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xffffffff;

class StepGraph {
 public:
  explicit StepGraph(std::span<const Schedule> schedules)
      : StepGraph(schedules, Symmetry::None(static_cast<std::uint32_t>(schedules.size()))) {}

  StepGraph(std::span<const Schedule> schedules, const Symmetry& symmetry);

  NodeId size() const { return first_.back(); }

  NodeId NodeOf(Member member, StepIndex step) const { return first_[member.value()] + step; }

  Member MemberOf(NodeId node) const { return Member(member_of_[node]); }

  StepIndex IndexOf(NodeId node) const { return node - first_[member_of_[node]]; }

  const Step& StepOf(NodeId node) const {
    return schedules_[member_of_[node]].steps[IndexOf(node)];
  }

  // The other end of a message; kNoNode for a local step and for a message without one.
  NodeId PartnerOf(NodeId node) const { return partner_[node]; }

  // How many steps of its own member come first.
  std::uint32_t WaitsOf(NodeId node) const;

  // The steps of the same member that name `node` in `after` (twice, if both slots do).
  std::span<const NodeId> DependentsOf(NodeId node) const;

  // "member 2 step 7 (send input[0,3) -> 1 #0)"
  std::string Describe(NodeId node) const;

 private:
  void LinkDependents();
  void PairMessages(const Symmetry& symmetry);

  std::span<const Schedule> schedules_;
  std::vector<NodeId> first_;  // by member, and one more
  std::vector<std::uint32_t> member_of_;
  std::vector<NodeId> partner_;
  std::vector<std::uint32_t> dependents_begin_;  // by node, and one more
  std::vector<NodeId> dependents_;
};

inline bool IsReceive(StepKind kind) {
  return kind == StepKind::kReceive || kind == StepKind::kReceiveReduce;
}

inline bool IsMessage(StepKind kind) {
  return kind == StepKind::kSend || IsReceive(kind);
}

}  // namespace maypole::collective
