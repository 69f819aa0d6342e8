#include "agent/engine/plan.h"

#include <unordered_map>
#include <utility>

#include "collective/parts.h"
#include "common/check.h"

namespace maypole::agent {

using collective::Buffer;
using collective::kNoStep;
using collective::Step;
using collective::StepIndex;
using collective::StepKind;

Plan::Plan(collective::Schedule schedule, std::vector<collective::Part> parts)
    : schedule_(std::move(schedule)), parts_(std::move(parts)) {
  if (parts_.empty()) {
    parts_ = collective::PartsOf(collective::Shape{.elements = schedule_.elements});
  }
  IndexParts();
  IndexDependents();
  IndexReceives();
  IndexWriters();
}

std::span<const StepIndex> Plan::Dependents(StepIndex index) const {
  return std::span(dependents_)
      .subspan(dependents_begin_[index], dependents_begin_[index + 1] - dependents_begin_[index]);
}

StepIndex Plan::ReceiveOf(Member peer, std::uint32_t ordinal) const {
  if (peer.value() >= receives_.size() || ordinal >= receives_[peer.value()].size()) {
    return kNoStep;
  }
  return receives_[peer.value()][ordinal];
}

void Plan::IndexDependents() {
  dependencies_.assign(size(), 0);
  dependents_begin_.assign(size() + 1, 0);
  for (const Step& step : schedule_.steps) {
    for (const StepIndex before : step.after) {
      if (before != kNoStep) {
        ++dependents_begin_[before + 1];
      }
    }
  }
  for (std::size_t i = 0; i < size(); ++i) {
    dependents_begin_[i + 1] += dependents_begin_[i];
  }
  dependents_.resize(dependents_begin_.back());
  std::vector<std::uint32_t> next(dependents_begin_.begin(), dependents_begin_.end() - 1);
  for (StepIndex i = 0; i < size(); ++i) {
    for (const StepIndex before : schedule_.steps[i].after) {
      if (before != kNoStep) {
        MAYPOLE_CHECK(before < i);
        dependents_[next[before]++] = i;
        ++dependencies_[i];
      }
    }
  }
}

void Plan::IndexParts() {
  part_of_.reserve(size());
  for (const Step& step : schedule_.steps) {
    const collective::Part& part = collective::PartAt(parts_, step.range.begin);
    MAYPOLE_CHECK(step.range.end <= part.range.end);
    part_of_.push_back(static_cast<std::uint32_t>(&part - parts_.data()));
    has_messages_ =
        has_messages_ || (step.kind != StepKind::kReduce && step.kind != StepKind::kCopy);
  }
}

void Plan::IndexReceives() {
  receives_.resize(schedule_.members);
  for (StepIndex i = 0; i < size(); ++i) {
    const Step& step = schedule_.steps[i];
    if (step.kind == StepKind::kReceive || step.kind == StepKind::kReceiveReduce) {
      auto& from = receives_.at(step.peer.value());
      MAYPOLE_CHECK(step.ordinal == from.size());
      from.push_back(i);
    }
  }
}

// The list is a topological order in which a range is never overwritten while a reader of its
// former value may be pending (collective/verify.h), so the last writer in list order is the writer
// that is meant.
void Plan::IndexWriters() {
  writer_.assign(size(), kNoStep);
  readers_.assign(size(), 0);
  std::unordered_map<ElementCount, StepIndex> partial;
  std::unordered_map<ElementCount, StepIndex> result;
  for (StepIndex i = 0; i < size(); ++i) {
    const Step& step = schedule_.steps[i];
    const bool adds_partial = step.kind == StepKind::kReduce;
    const bool has_source = step.kind != StepKind::kReceive;
    if (adds_partial || (has_source && step.source != Buffer::kInput)) {
      auto& written = adds_partial || step.source == Buffer::kPartial ? partial : result;
      const auto writer = written.find(step.range.begin);
      MAYPOLE_CHECK(writer != written.end() && schedule_.steps[writer->second].range == step.range);
      writer_[i] = writer->second;
      ++readers_[writer->second];
    }
    if (step.kind != StepKind::kSend) {
      (step.target == Buffer::kPartial ? partial : result)[step.range.begin] = i;
    }
  }
}

}  // namespace maypole::agent
