// The three buffers of every member, with symbols for values, and the rules for their use.
//
// Pure. Internal to the verifier, which executes the steps in one valid order. That any other order
// gives the same is shown by happens-before: two accesses of one place, one of them a write, must
// be ordered by `after` edges and messages. A message orders its send (the reading of the source)
// before its receive; nothing orders a receive before what follows the send.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "collective/step_graph.h"
#include "collective/sum_table.h"

namespace maypole::collective {

class SymbolicMemory {
 public:
  // All must outlive this object.
  SymbolicMemory(const StepGraph& graph,
                 SumTable& sums,
                 std::span<const Schedule> schedules,
                 std::span<const Part> parts);

  // Executes the next step of a valid order, in which a receive comes right after its send. Returns
  // the problem, or an empty text.
  std::string Execute(NodeId node);

  // The problem of the final state, or an empty text.
  std::string CheckResults() const;

  // The borders between which all elements fare alike, ascending.
  const std::vector<ElementCount>& borders() const { return borders_; }

  // The sum that ends in kResult from borders()[piece] on, at the first member that gets it.
  SumId ResultOf(std::size_t piece) const {
    return CellOf(FirstTaker(piece), Buffer::kResult, piece).value;
  }

 private:
  // One piece of one buffer of one member.
  struct Cell {
    SumId value = kNoSum;
    NodeId writer = kNoNode;
    std::vector<NodeId> readers;  // since it was written
  };

  // The pieces of a range.
  struct Pieces {
    std::size_t begin;
    std::size_t end;
  };

  Pieces PiecesOf(ElementRange range) const;

  const Part& PartOf(std::size_t piece) const { return parts_[part_of_[piece]]; }

  Member FirstTaker(std::size_t piece) const {
    return Member(PartOf(piece).to == kEverybody ? 0 : PartOf(piece).to);
  }

  ElementRange RangeOf(std::size_t piece) const { return {borders_[piece], borders_[piece + 1]}; }

  std::size_t IndexOf(Member member, Buffer buffer, std::size_t piece) const;

  const Cell& CellOf(Member member, Buffer buffer, std::size_t piece) const {
    return cells_[IndexOf(member, buffer, piece)];
  }

  std::string Read(NodeId node, Buffer buffer, std::vector<SumId>& values);
  std::string CheckRead(NodeId node, Buffer buffer, std::size_t piece) const;
  std::string Write(NodeId node, const std::vector<SumId>& values);
  std::string CheckWrite(NodeId node, std::size_t piece, SumId value);
  std::string CheckFinished(NodeId node, std::size_t piece, SumId value) const;
  std::string CheckOverwrite(NodeId node, Buffer buffer, std::size_t piece);

  // Whether `before` is over when `after` begins, in every execution.
  bool HappensBefore(NodeId before, NodeId after);

  const StepGraph& graph_;
  SumTable& sums_;
  std::span<const Part> parts_;
  std::uint32_t members_;
  std::vector<ElementCount> borders_;
  std::vector<std::size_t> part_of_;  // by piece
  std::vector<Cell> cells_;
  std::vector<SumId> message_;           // what the last send read
  std::vector<std::uint32_t> position_;  // of each executed node in the order, from 1
  std::uint32_t executed_ = 0;
  std::vector<std::uint32_t> visited_;  // by node: the search that saw it last
  std::uint32_t search_ = 0;
  std::vector<NodeId> pending_;  // of the search in progress
};

}  // namespace maypole::collective
