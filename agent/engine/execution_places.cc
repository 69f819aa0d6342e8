// The part of Execution that knows where elements lie: what of which rank's tensor a step reads and
// writes, and where the copies of what it overwrites are.

#include <algorithm>
#include <limits>

#include "agent/engine/execution.h"
#include "common/check.h"

namespace maypole::agent {

using collective::Buffer;
using collective::Step;
using collective::StepKind;

namespace {

constexpr ElementCount kNoElement = std::numeric_limits<ElementCount>::max();

}  // namespace

// All at the start, since the size comes from a client: what then fails is its op alone, before a
// byte moves.
bool Execution::AllocateUndo() {
  for (std::size_t i = 0; restorable_ && i < spec_.locals.size(); ++i) {
    const LocalTensor& local = spec_.locals[i];
    ElementRange overwritten = {kNoElement, 0};
    for (const collective::Part& part : spec_.plan->parts()) {
      if (local.restorable && part.is_sum() && part.GoesTo(local.rank.value())) {
        overwritten = {std::min(overwritten.begin, part.range.begin), part.range.end};
      }
    }
    if (overwritten.end == 0) {
      continue;
    }
    undo_[i] = {overwritten.begin,
                memory_.AllocateScratch(overwritten.size() * SizeOf(spec_.dtype))};
    if (undo_[i].copy.address == nullptr) {
      return false;
    }
  }
  return true;
}

ReduceWork Execution::NewWork(StepIndex index) const {
  ReduceWork work;
  work.accumulator = accumulator_;
  work.reduction = spec_.reduction;
  work.elements = Elements(index);
  const Step& step = spec_.plan->step(index);
  if (spec_.reduction == Reduction::kMean && step.kind != StepKind::kSend &&
      step.target == Buffer::kResult) {
    work.divisor = spec_.world_size;
  }
  return work;
}

const LocalTensor* Execution::SoleInput(StepIndex index) const {
  if (spec_.locals.size() == 1) {
    return &spec_.locals.front();
  }
  const collective::Part& part = spec_.plan->PartOf(index);
  if (part.is_sum()) {
    return nullptr;
  }
  const auto source =
      std::find_if(spec_.locals.begin(), spec_.locals.end(), [&](const LocalTensor& local) {
        return part.ComesFrom(local.rank.value());
      });
  MAYPOLE_CHECK(source != spec_.locals.end());
  return &*source;
}

void Execution::AddInputs(StepIndex index, ReduceWork& work) const {
  if (const LocalTensor* sole = SoleInput(index)) {
    work.inputs.push_back({InputOf(*sole, index), spec_.dtype});
    return;
  }
  for (const LocalTensor& local : spec_.locals) {
    work.inputs.push_back({InputOf(local, index), spec_.dtype});
  }
}

bool Execution::AddOutputs(StepIndex index, ReduceWork& work) {
  StepState& state = steps_[index];
  const Step& step = spec_.plan->step(index);
  if (step.target == Buffer::kPartial) {
    // Scratch that the frame was received into becomes the sum, unless it is of a narrower type.
    const bool is_ours = state.received.buffer.address != nullptr && !state.received.payload;
    if (is_ours && state.received_dtype == accumulator_) {
      state.slice = std::exchange(state.received, Slice{});
    } else if (!Allocate(index, accumulator_, state.slice)) {
      return false;
    }
    work.outputs.push_back({state.slice.buffer, accumulator_});
    return true;
  }
  bool saves = false;
  for (std::size_t i = 0; i < spec_.locals.size(); ++i) {
    const LocalTensor& local = spec_.locals[i];
    if (!Gets(local, index)) {
      continue;
    }
    const BufferView target = OutputOf(local.output, index);
    work.outputs.push_back({target, spec_.dtype});
    if (local.restorable && IsUndone(index)) {
      work.saves.push_back({target, UndoOf(i, index)});
      saves = true;
    }
  }
  if (spec_.shared_result.address != nullptr) {
    work.outputs.push_back({OutputOf(spec_.shared_result, index), spec_.dtype});
  }
  if (saves) {
    saved_.push_back(index);
  }
  return true;
}

bool Execution::Gets(const LocalTensor& local, StepIndex index) const {
  return local.output.address != nullptr && spec_.plan->PartOf(index).GoesTo(local.rank.value());
}

bool Execution::IsUndone(StepIndex index) const {
  return restorable_ && spec_.plan->PartOf(index).is_sum();
}

std::size_t Execution::ResultPlaces(StepIndex index) const {
  const auto own = std::count_if(spec_.locals.begin(),
                                 spec_.locals.end(),
                                 [&](const LocalTensor& local) { return Gets(local, index); });
  return static_cast<std::size_t>(own) + (spec_.shared_result.address != nullptr ? 1 : 0);
}

// What arrives finished is copied to its places, and not received straight into the only one.
bool Execution::IsPublished(StepIndex index) const {
  return IsUndone(index) || ResultPlaces(index) > 1;
}

BufferView Execution::Primary(StepIndex index) const {
  for (const LocalTensor& local : spec_.locals) {
    if (Gets(local, index)) {
      return OutputOf(local.output, index);
    }
  }
  return OutputOf(spec_.shared_result, index);
}

BufferView Execution::InputOf(const LocalTensor& local, StepIndex index) const {
  const collective::Part& part = spec_.plan->PartOf(index);
  const ElementRange range = spec_.plan->step(index).range;
  const std::uint64_t size = SizeOf(spec_.dtype);
  return local.input.Sub((part.input_begin + (range.begin - part.range.begin)) * size,
                         range.size() * size);
}

BufferView Execution::OutputOf(BufferView tensor, StepIndex index) const {
  const collective::Part& part = spec_.plan->PartOf(index);
  const ElementRange range = spec_.plan->step(index).range;
  const std::uint64_t size = SizeOf(spec_.dtype);
  return tensor.Sub((part.output_begin + (range.begin - part.range.begin)) * size,
                    range.size() * size);
}

BufferView Execution::UndoOf(std::size_t local, StepIndex index) const {
  const ElementRange range = spec_.plan->step(index).range;
  const std::uint64_t size = SizeOf(spec_.dtype);
  return undo_[local].copy.Sub((range.begin - undo_[local].begin) * size, range.size() * size);
}

}  // namespace maypole::agent
