// What the makers share: a schedule under construction that numbers messages, and the sum in member
// order.
//
// Pure. Internal to collective/.
#pragma once

#include <cstdint>
#include <vector>

#include "collective/schedule.h"

namespace maypole::collective {

struct After {
  StepIndex first = kNoStep;
  StepIndex second = kNoStep;
};

class ScheduleBuilder {
 public:
  ScheduleBuilder(Algorithm algorithm, const Shape& shape);

  // Each appends one step and returns its index.
  StepIndex Send(Buffer source, ElementRange range, Member peer, After after = {});
  StepIndex Receive(ElementRange range, Member peer, Buffer target, After after = {});
  StepIndex ReceiveReduce(
      Buffer source, ElementRange range, Member peer, Buffer target, After after = {});
  StepIndex Reduce(ElementRange range, Buffer target, After after = {});

  StepIndex Copy(ElementRange range);

  // The whole schedule of a single member: its own sum is the result, slice by slice.
  void CopyAll();

  // ((v0 + v1) + v2) + ..., where v_k is what the k-th member of the shape's sum_order sends of
  // `range`, or the own input. The last combination writes kResult, also after `before_result`.
  // Returns its index. Needs two members or more.
  StepIndex SumInOrder(ElementRange range, StepIndex before_result = kNoStep);

  // The member `distance` places further round the ring.
  Member Next(std::uint32_t distance) const;
  Member Previous(std::uint32_t distance) const;

  const Shape& shape() const { return shape_; }

  Schedule Take() { return std::move(schedule_); }

 private:
  StepIndex Append(Step step, After after);

  Shape shape_;
  Schedule schedule_;
  std::vector<std::uint32_t> sends_;     // so far, by peer
  std::vector<std::uint32_t> receives_;  // so far, by peer
};

}  // namespace maypole::collective
