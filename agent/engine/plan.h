// A schedule made ready for execution: who waits for whom, which step a frame belongs to, who
// reads what which step wrote, and whose elements a step works on. Pure; made once per shape and
// shared by all ops of that shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/schedule.h"

namespace maypole::agent {

class Plan {
 public:
  // `parts` of ranks, ascending, all that the steps touch; empty: one, from everybody to everybody.
  explicit Plan(collective::Schedule schedule, std::vector<collective::Part> parts = {});

  const collective::Schedule& schedule() const { return schedule_; }

  const collective::Step& step(collective::StepIndex index) const { return schedule_.steps[index]; }

  std::span<const collective::Part> parts() const { return parts_; }

  // The part that a step works on.
  const collective::Part& PartOf(collective::StepIndex index) const {
    return parts_[part_of_[index]];
  }

  // A plan without messages cannot fail.
  bool has_messages() const { return has_messages_; }

  std::size_t size() const { return schedule_.steps.size(); }

  // Steps that must complete before `index`.
  std::uint32_t Dependencies(collective::StepIndex index) const { return dependencies_[index]; }

  // Steps that name `index` in their `after`.
  std::span<const collective::StepIndex> Dependents(collective::StepIndex index) const;

  // The receiving step of frame `ordinal` from `peer`; kNoStep if there is none.
  collective::StepIndex ReceiveOf(Member peer, std::uint32_t ordinal) const;

  // For a step that reads kPartial, or sends from kResult: the step that wrote what it reads.
  collective::StepIndex WriterOf(collective::StepIndex index) const { return writer_[index]; }

  // For a step that writes kPartial or receives into kResult: how many steps read what it wrote.
  std::uint32_t ReadersOf(collective::StepIndex index) const { return readers_[index]; }

 private:
  void IndexDependents();
  void IndexParts();
  void IndexReceives();
  void IndexWriters();

  collective::Schedule schedule_;
  std::vector<collective::Part> parts_;
  std::vector<std::uint32_t> part_of_;
  bool has_messages_ = false;
  std::vector<std::uint32_t> dependencies_;
  std::vector<std::uint32_t> dependents_begin_;
  std::vector<collective::StepIndex> dependents_;
  std::vector<std::vector<collective::StepIndex>> receives_;
  std::vector<collective::StepIndex> writer_;
  std::vector<std::uint32_t> readers_;
};

}  // namespace maypole::agent
