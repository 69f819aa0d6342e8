#include "collective/builder.h"

#include "collective/parts.h"
#include "collective/slices.h"
#include "common/check.h"

namespace maypole::collective {

ScheduleBuilder::ScheduleBuilder(Algorithm algorithm, const Shape& shape)
    : shape_(shape), sends_(shape.members), receives_(shape.members) {
  MAYPOLE_CHECK(shape.members > 0 && shape.self.value() < shape.members);
  MAYPOLE_CHECK(shape.slice_elements > 0);
  schedule_.collective = shape.collective;
  schedule_.algorithm = algorithm;
  schedule_.self = shape.self;
  schedule_.members = shape.members;
  schedule_.elements = shape.elements;
}

StepIndex ScheduleBuilder::Append(Step step, After after) {
  MAYPOLE_CHECK(schedule_.steps.size() < kNoStep);
  if (after.first == kNoStep) {
    std::swap(after.first, after.second);
  }
  step.after = {after.first, after.second};
  if (step.kind == StepKind::kSend) {
    step.ordinal = sends_[step.peer.value()]++;
  } else if (step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
    step.ordinal = receives_[step.peer.value()]++;
  }
  schedule_.steps.push_back(step);
  return static_cast<StepIndex>(schedule_.steps.size() - 1);
}

StepIndex ScheduleBuilder::Send(Buffer source, ElementRange range, Member peer, After after) {
  return Append({.kind = StepKind::kSend, .source = source, .peer = peer, .range = range}, after);
}

StepIndex ScheduleBuilder::Receive(ElementRange range, Member peer, Buffer target, After after) {
  return Append({.kind = StepKind::kReceive, .target = target, .peer = peer, .range = range},
                after);
}

StepIndex ScheduleBuilder::ReceiveReduce(
    Buffer source, ElementRange range, Member peer, Buffer target, After after) {
  return Append({.kind = StepKind::kReceiveReduce,
                 .source = source,
                 .target = target,
                 .peer = peer,
                 .range = range},
                after);
}

StepIndex ScheduleBuilder::Reduce(ElementRange range, Buffer target, After after) {
  return Append({.kind = StepKind::kReduce, .target = target, .peer = shape_.self, .range = range},
                after);
}

StepIndex ScheduleBuilder::Copy(ElementRange range) {
  return Append({.kind = StepKind::kCopy, .peer = shape_.self, .range = range}, {});
}

void ScheduleBuilder::CopyAll() {
  for (const Part& part : PartsOf(shape_)) {
    for (const ElementRange slice : SlicesOf(part.range, shape_.slice_elements)) {
      Copy(slice);
    }
  }
}

StepIndex ScheduleBuilder::SumInOrder(ElementRange range, StepIndex before_result) {
  const std::vector<Member>& order = shape_.sum_order;
  const auto at = [&](std::uint32_t place) { return order.empty() ? Member(place) : order[place]; };
  const std::uint32_t last = shape_.members - 1;
  MAYPOLE_CHECK(last > 0 && (order.empty() || order.size() == shape_.members));
  std::uint32_t self = 0;
  while (at(self) != shape_.self) {
    ++self;
  }
  // The first combination, of places 0 and 1, takes their own input with the first arrival. Where
  // the result has to wait for sends, though, the last member must not also wait to receive: two
  // members that each receive only after their send has been received stand still for ever.
  const bool input_first = self == 0 || (self == 1 && (last > 1 || before_result == kNoStep));
  StepIndex sum = kNoStep;
  for (std::uint32_t place = 0; place <= last; ++place) {
    const bool own = place == self;
    if (own && input_first) {
      continue;
    }
    const bool complete = place == last || (place == last - 1 && self == last && input_first);
    const Buffer target = complete ? Buffer::kResult : Buffer::kPartial;
    const After after = {sum, complete ? before_result : kNoStep};
    if (own) {
      sum = Reduce(range, target, after);
    } else if (sum == kNoStep && !input_first) {
      sum = Receive(range, at(place), target, after);
    } else {
      const Buffer source = sum == kNoStep ? Buffer::kInput : Buffer::kPartial;
      sum = ReceiveReduce(source, range, at(place), target, after);
    }
  }
  return sum;
}

Member ScheduleBuilder::Next(std::uint32_t distance) const {
  return Member((shape_.self.value() + distance % shape_.members) % shape_.members);
}

Member ScheduleBuilder::Previous(std::uint32_t distance) const {
  return Next(shape_.members - distance % shape_.members);
}

}  // namespace maypole::collective
