// A schedule made ready for execution: who waits for whom, which step a frame belongs to, and who
// reads what which step wrote. Pure; made once per shape and shared by all ops of that shape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collective/schedule.h"

namespace maypole::agent {

class Plan {
 public:
  explicit Plan(collective::Schedule schedule);

  const collective::Schedule& schedule() const { return schedule_; }

  const collective::Step& step(collective::StepIndex index) const { return schedule_.steps[index]; }

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
  void IndexReceives();
  void IndexWriters();

  collective::Schedule schedule_;
  std::vector<std::uint32_t> dependencies_;
  std::vector<std::uint32_t> dependents_begin_;
  std::vector<collective::StepIndex> dependents_;
  std::vector<std::vector<collective::StepIndex>> receives_;
  std::vector<collective::StepIndex> writer_;
  std::vector<std::uint32_t> readers_;
};

}  // namespace maypole::agent
