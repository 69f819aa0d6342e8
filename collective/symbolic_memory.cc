#include "collective/symbolic_memory.h"

#include <algorithm>
#include <sstream>

#include "collective/print.h"

namespace maypole::collective {
namespace {

constexpr std::size_t kBuffers = 3;

std::string Place(Buffer buffer, ElementRange range) {
  std::ostringstream out;
  out << Name(buffer) << range;
  return out.str();
}

std::vector<ElementCount> BordersOf(std::span<const Schedule> schedules,
                                    std::span<const Part> parts) {
  std::vector<ElementCount> borders = {0, schedules.front().elements};
  for (const Part& part : parts) {
    borders.push_back(part.range.begin);
  }
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      borders.push_back(step.range.begin);
      borders.push_back(step.range.end);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

}  // namespace

SymbolicMemory::SymbolicMemory(const StepGraph& graph,
                               SumTable& sums,
                               std::span<const Schedule> schedules,
                               std::span<const Part> parts)
    : graph_(graph),
      sums_(sums),
      parts_(parts),
      members_(static_cast<std::uint32_t>(schedules.size())),
      borders_(BordersOf(schedules, parts)),
      cells_(members_ * kBuffers * (borders_.size() - 1)),
      position_(graph.size()),
      visited_(graph.size()) {
  for (std::size_t piece = 0, part = 0; piece + 1 < borders_.size(); ++piece) {
    part += borders_[piece] == parts_[part].range.end ? 1 : 0;
    part_of_.push_back(part);
    for (std::uint32_t member = 0; member < members_; ++member) {
      if (parts_[part].ComesFrom(member)) {
        cells_[IndexOf(Member(member), Buffer::kInput, piece)].value = sums_.InputOf(member);
      }
    }
  }
}

SymbolicMemory::Pieces SymbolicMemory::PiecesOf(ElementRange range) const {
  const auto find = [&](ElementCount border) {
    return static_cast<std::size_t>(std::lower_bound(borders_.begin(), borders_.end(), border) -
                                    borders_.begin());
  };
  return {find(range.begin), find(range.end)};
}

std::size_t SymbolicMemory::IndexOf(Member member, Buffer buffer, std::size_t piece) const {
  return (member.value() * kBuffers + static_cast<std::size_t>(buffer)) * (borders_.size() - 1) +
         piece;
}

std::string SymbolicMemory::Execute(NodeId node) {
  position_[node] = ++executed_;
  const Step& step = graph_.StepOf(node);
  std::vector<SumId> values;
  std::string problem;
  if (step.kind != StepKind::kReceive) {
    problem = Read(node, step.source, values);
  }
  if (problem.empty() && step.kind == StepKind::kSend) {
    message_ = std::move(values);
    return "";
  }
  std::vector<SumId> other;
  if (step.kind == StepKind::kReduce && problem.empty()) {
    problem = Read(node, Buffer::kPartial, other);
  } else if (IsReceive(step.kind)) {
    other = std::move(message_);
  }
  if (!problem.empty()) {
    return problem;
  }
  if (values.empty()) {
    values = std::move(other);
  } else if (!other.empty()) {
    std::transform(
        values.begin(), values.end(), other.begin(), values.begin(), [&](SumId left, SumId right) {
          return sums_.Add(left, right);
        });
  }
  return Write(node, values);
}

std::string SymbolicMemory::Read(NodeId node, Buffer buffer, std::vector<SumId>& values) {
  const Pieces pieces = PiecesOf(graph_.StepOf(node).range);
  for (std::size_t piece = pieces.begin; piece < pieces.end; ++piece) {
    if (std::string problem = CheckRead(node, buffer, piece); !problem.empty()) {
      return problem;
    }
    Cell& cell = cells_[IndexOf(graph_.MemberOf(node), buffer, piece)];
    if (cell.writer != kNoNode && !HappensBefore(cell.writer, node)) {
      return graph_.Describe(node) + " reads " + Place(buffer, RangeOf(piece)) +
             " without waiting for " + graph_.Describe(cell.writer) + ", which writes it";
    }
    cell.readers.push_back(node);
    values.push_back(cell.value);
  }
  return "";
}

std::string SymbolicMemory::CheckRead(NodeId node, Buffer buffer, std::size_t piece) const {
  const Member member = graph_.MemberOf(node);
  const Cell& cell = CellOf(member, buffer, piece);
  if (cell.value == kNoSum) {
    return graph_.Describe(node) + " reads " + Place(buffer, RangeOf(piece)) +
           ", which nothing has written";
  }
  const NodeId finisher = CellOf(member, Buffer::kResult, piece).writer;
  if (buffer == Buffer::kInput && finisher != kNoNode && PartOf(piece).is_sum()) {
    return graph_.Describe(node) + " reads " + Place(buffer, RangeOf(piece)) + " although " +
           graph_.Describe(finisher) + " may have written the result in its place";
  }
  const ElementRange range = graph_.StepOf(node).range;
  if (buffer != Buffer::kInput && graph_.StepOf(cell.writer).range != range) {
    return graph_.Describe(node) + " reads " + Place(buffer, range) +
           " as another range than written by " + graph_.Describe(cell.writer);
  }
  if (cell.writer != kNoNode && cell.writer > node) {
    return graph_.Describe(node) + " reads " + Place(buffer, range) +
           " but stands before its writer in the list: " + graph_.Describe(cell.writer);
  }
  return "";
}

std::string SymbolicMemory::Write(NodeId node, const std::vector<SumId>& values) {
  const Step& step = graph_.StepOf(node);
  const Pieces pieces = PiecesOf(step.range);
  for (std::size_t piece = pieces.begin; piece < pieces.end; ++piece) {
    const SumId value = values[piece - pieces.begin];
    if (std::string problem = CheckWrite(node, piece, value); !problem.empty()) {
      return problem;
    }
    Cell& cell = cells_[IndexOf(graph_.MemberOf(node), step.target, piece)];
    cell.value = value;
    cell.writer = node;
    cell.readers.clear();
  }
  return "";
}

std::string SymbolicMemory::CheckWrite(NodeId node, std::size_t piece, SumId value) {
  const Buffer target = graph_.StepOf(node).target;
  if (target != Buffer::kResult) {
    return CheckOverwrite(node, target, piece);
  }
  const Cell& cell = CellOf(graph_.MemberOf(node), target, piece);
  if (cell.writer != kNoNode) {
    return graph_.Describe(node) + " writes " + Place(target, RangeOf(piece)) + " again after " +
           graph_.Describe(cell.writer);
  }
  if (std::string problem = CheckFinished(node, piece, value); !problem.empty()) {
    return problem;
  }
  return PartOf(piece).is_sum() ? CheckOverwrite(node, Buffer::kInput, piece) : "";
}

std::string SymbolicMemory::CheckFinished(NodeId node, std::size_t piece, SumId value) const {
  const Part& part = PartOf(piece);
  const auto writes = [&](const std::string& what) {
    return graph_.Describe(node) + " writes " + what + " to " +
           Place(Buffer::kResult, RangeOf(piece));
  };
  if (!part.GoesTo(graph_.MemberOf(node).value())) {
    return writes("what is for member " + std::to_string(part.to) + " alone");
  }
  if (!part.is_sum()) {
    return value == sums_.InputOf(part.from)
               ? ""
               : writes("not the input of member " + std::to_string(part.from) + " but " +
                        sums_.Text(value));
  }
  return sums_.Complete(value) ? ""
                               : writes("a sum that is not complete") + ": " + sums_.Text(value) +
                                     " " + sums_.Defect(value);
}

std::string SymbolicMemory::CheckOverwrite(NodeId node, Buffer buffer, std::size_t piece) {
  const Cell& cell = CellOf(graph_.MemberOf(node), buffer, piece);
  const std::string place = Place(buffer, RangeOf(piece));
  if (cell.writer != kNoNode && cell.readers.empty()) {
    return graph_.Describe(node) + " overwrites " + place + ", written by " +
           graph_.Describe(cell.writer) + " and never read";
  }
  for (const NodeId reader : cell.readers) {
    if (reader > node) {
      return graph_.Describe(node) + " writes over " + place +
             " but stands before a reader in the list: " + graph_.Describe(reader);
    }
    if (reader != node && !HappensBefore(reader, node)) {
      return graph_.Describe(node) + " writes over " + place + " without waiting for " +
             graph_.Describe(reader) + ", which reads it";
    }
  }
  return "";
}

bool SymbolicMemory::HappensBefore(NodeId before, NodeId after) {
  ++search_;
  pending_.assign(1, after);
  while (!pending_.empty()) {
    const NodeId node = pending_.back();
    pending_.pop_back();
    const Step& step = graph_.StepOf(node);
    std::array<NodeId, 3> earlier = {kNoNode, kNoNode, kNoNode};
    for (std::size_t slot = 0; slot < step.after.size(); ++slot) {
      if (step.after[slot] != kNoStep) {
        earlier[slot] = graph_.NodeOf(graph_.MemberOf(node), step.after[slot]);
      }
    }
    if (IsReceive(step.kind)) {
      earlier[2] = graph_.PartnerOf(node);
    }
    for (const NodeId candidate : earlier) {
      if (candidate == before) {
        return true;
      }
      // What ran before `before` did cannot come after it.
      if (candidate != kNoNode && position_[candidate] > position_[before] &&
          visited_[candidate] != search_) {
        visited_[candidate] = search_;
        pending_.push_back(candidate);
      }
    }
  }
  return false;
}

std::string SymbolicMemory::CheckResults() const {
  for (std::uint32_t member = 0; member < members_; ++member) {
    for (std::size_t piece = 0; piece + 1 < borders_.size(); ++piece) {
      const Cell& result = CellOf(Member(member), Buffer::kResult, piece);
      const std::string place = Place(Buffer::kResult, RangeOf(piece));
      if (result.writer == kNoNode && PartOf(piece).GoesTo(member)) {
        return "member " + std::to_string(member) + " never writes " + place;
      }
      if (result.writer != kNoNode && result.value != ResultOf(piece)) {
        return "members " + std::to_string(FirstTaker(piece).value()) + " and " +
               std::to_string(member) + " end with different sums in " + place + ": " +
               sums_.Text(ResultOf(piece)) + " and " + sums_.Text(result.value);
      }
      const Cell& partial = CellOf(Member(member), Buffer::kPartial, piece);
      if (partial.writer != kNoNode && partial.readers.empty()) {
        return graph_.Describe(partial.writer) + " writes a partial sum that nothing reads";
      }
    }
  }
  return "";
}

}  // namespace maypole::collective
