// A schedule under construction for makers that move whole pieces: where this member's copy of each
// unit is by now, and which step put it there.
//
// Pure. Internal to collective/. A unit is a range that no step ever cuts; a unit's steps on one
// member form a chain, and units do not wait for each other, which is all the pipelining there is.
// A member reads its input of a unit once, and the complete sum needs that read, so no result is
// ever written over an input that is still to be read.
// Matching: all members must visit messages in one common order (say stage, then unit).
#pragma once

#include <cstdint>
#include <vector>

#include "collective/builder.h"
#include "collective/schedule.h"

namespace maypole::collective {

using UnitIndex = std::uint32_t;

// Consecutive units [begin, end).
struct Block {
  UnitIndex begin = 0;
  UnitIndex end = 0;

  UnitIndex size() const { return end - begin; }
};

// Those who carry out one phase, in the order in which its algorithm numbers them.
struct Team {
  std::vector<Member> members;
  std::uint32_t self = 0;  // index of the own member

  std::uint32_t size() const { return static_cast<std::uint32_t>(members.size()); }

  Member at(std::uint32_t index) const { return members[index % members.size()]; }

  static Team Everybody(const Shape& shape);
};

class Flow {
 public:
  Flow(Algorithm algorithm, const Shape& shape, std::vector<ElementRange> units);

  // This member's copy goes to `peer`.
  void Send(UnitIndex unit, Member peer);

  // What `peer` sends is added to this member's copy; the last addition is `complete`.
  void Combine(UnitIndex unit, Member peer, bool complete);

  // `peer` sends the finished unit.
  void Take(UnitIndex unit, Member peer);

  // What this member has of these units is its own result too.
  void Keep(Block units);

  void Send(Block units, Member peer);
  void Combine(Block units, Member peer, bool complete);
  void Take(Block units, Member peer);

  Schedule Finish() { return builder_.Take(); }

 private:
  struct Copy {
    ElementRange range;
    Buffer buffer = Buffer::kInput;
    StepIndex written_by = kNoStep;
  };

  ScheduleBuilder builder_;
  std::vector<Copy> copies_;
};

// The units of a tensor that is cut into `parts` chunks and those into slices; `blocks` gets one
// entry per chunk.
std::vector<ElementRange> CutIntoChunks(const Shape& shape,
                                        std::uint32_t parts,
                                        std::vector<Block>& blocks);

// A single member's schedule.
Schedule CopyOfInput(Algorithm algorithm, const Shape& shape);

}  // namespace maypole::collective
