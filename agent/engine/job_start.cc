// The part of Job that starts an op once all who take part have announced it and agree: which
// algorithm runs it, and what it is for each local rank.

#include <algorithm>
#include <utility>

#include "agent/engine/job.h"
#include "proto/announce.h"

namespace maypole::agent {

using collective::Algorithm;

namespace {

// What the op asks of the job's ranks. Only where the ranks differ does their placement matter.
collective::Layout LayoutOf(const Submission& submission,
                            const std::shared_ptr<const collective::Placement>& placement) {
  const bool same_for_all = submission.collective == collective::Collective::kAllReduce ||
                            submission.collective == collective::Collective::kBarrier;
  return {.collective = submission.collective,
          .elements = submission.elements,
          .root = submission.root.value(),
          .peer = submission.peer.value(),
          .counts = submission.counts,
          .placement = same_for_all ? nullptr : placement};
}

// The local rank's side of it.
LocalTensor TensorOf(const Submission& submission, Rank rank) {
  LocalTensor local{.rank = rank, .input = submission.tensor, .output = submission.tensor};
  if (submission.shared_result) {
    local.output = {};
  } else if (submission.collective == collective::Collective::kAllToAll) {
    local.output = submission.output;
  }
  local.restorable = !submission.overwrite;
  return local;
}

}  // namespace

void Job::TryStart(const OpKey& key, TimePoint now) {
  Op& op = ops_.at(key);
  bool all_here = true;
  for (std::uint32_t m = 0; m < op.announces.size(); ++m) {
    all_here = all_here && (op.announces[m] || !TakesPart(op, Member(m)));
  }
  if (!all_here || op.execution || op.failure) {
    return;
  }
  if (auto mismatch = FindMismatch(key.occurrence, op.announces)) {
    FailOp(key, std::move(*mismatch), /*tell_members=*/false, now);  // they find the same
    return;
  }
  if (auto problem = ChoiceProblem(key, op)) {
    FailOp(key, std::move(*problem), /*tell_members=*/false, now);
    return;
  }
  Start(key, op, now);
}

std::size_t Job::FirstMember(const Op& op) {
  return static_cast<std::size_t>(
      std::find_if(op.announces.begin(),
                   op.announces.end(),
                   [](const auto& announce) { return announce.has_value(); }) -
      op.announces.begin());
}

const Submission& Job::AnyOf(const Op& op) {
  return **std::find_if(op.local.begin(), op.local.end(), [](const auto& submission) {
    return submission.has_value();
  });
}

std::optional<Outcome> Job::ChoiceProblem(const OpKey& key, const Op& op) const {
  const std::size_t member = FirstMember(op);
  const Announce& first = *op.announces[member];
  if (static_cast<Algorithm>(first.algorithm) == Algorithm::kHierarchical &&
      epoch_.levels.empty()) {
    return Outcome{ErrorCode::kInvalidArgument,
                   Describe(op.collective, op.name, key.occurrence) +
                       " was refused before any byte moved: algorithm hierarchical needs levels of "
                       "nodes, and epoch " +
                       std::to_string(epoch_.epoch.value()) + " of job \"" + epoch_.job +
                       "\" has none (docs/algorithms.md); ask for auto, ring, direct, tree, "
                       "double_tree, halving or naive",
                   {}};
  }
  if (first.algorithm == 0 || first.algorithm > collective::kAlgorithms.size() ||
      !IsAvailable(static_cast<collective::Collective>(op.collective),
                   static_cast<Algorithm>(first.algorithm)) ||
      first.slice_bytes < context_.options.slice_bytes_min ||
      first.slice_bytes > collective::kSliceBytesMax) {
    return Outcome{ErrorCode::kInternal,
                   Describe(op.collective, op.name, key.occurrence) + ": " +
                       epoch_.members[member].node + " chose algorithm " +
                       std::to_string(first.algorithm) + " with slices of " +
                       std::to_string(first.slice_bytes) + " bytes, which cannot be; slices have " +
                       std::to_string(context_.options.slice_bytes_min) + " to " +
                       std::to_string(collective::kSliceBytesMax) + " bytes",
                   {}};
  }
  return std::nullopt;
}

void Job::Start(const OpKey& key, Op& op, TimePoint now) {
  auto spec = MakeSpec(op);
  if (!spec) {
    FailOp(key,
           {ErrorCode::kResourceExhausted,
            DescribeOp(key, op) + ": no memory for a shared result of " +
                std::to_string(AnyOf(op).tensor.bytes) + " bytes on " + context_.options.node +
                "; free former results (maypole_op_free) or raise --result-bytes-max",
            {}},
           /*tell_members=*/true,
           now);
    return;
  }
  const std::uint64_t first_token = context_.executions.Add(epoch_.token, key);
  auto execution = std::make_unique<Execution>(std::move(*spec), first_token, context_.memory);
  ExecutionOutput out;
  if (!execution->Start(out)) {
    context_.executions.Remove(first_token);
    FailOp(key,
           {ErrorCode::kResourceExhausted,
            DescribeOp(key, op) + ": no memory on " + context_.options.node +
                " for copies of its inputs, which a failure would need (" +
                std::to_string(AnyOf(op).tensor.bytes) +
                " bytes for each of this node's ranks); submit it with overwrite, or in smaller "
                "parts",
            {}},
           /*tell_members=*/true,
           now);
    return;
  }
  op.started = now;
  op.first_token = first_token;
  op.alone = context_.executions.IsAlone(first_token);
  op.execution = std::move(execution);
  for (const ParkedFrame& frame : std::exchange(op.parked, {})) {
    op.execution->OnArrival(Member(frame.header.sender), frame.header.ordinal, frame.payload, out);
  }
  Flush(key, op, out);
  Settle(key, now);
}

// Empty if a shared result is asked for and there is no memory for it.
std::optional<ExecutionSpec> Job::MakeSpec(Op& op) {
  const Submission& first = AnyOf(op);
  const auto members = static_cast<std::uint32_t>(epoch_.members.size());
  const std::uint64_t bytes = first.elements * SizeOf(first.dtype);
  const Announce& chosen = *op.announces[FirstMember(op)];
  op.algorithm = static_cast<Algorithm>(chosen.algorithm);
  const bool sums = collective::Sums(first.collective);
  const std::uint64_t element_bytes = SizeOf(sums ? AccumulatorOf(first.dtype) : first.dtype);
  const collective::Layout layout = LayoutOf(first, placement_);
  ExecutionSpec spec;
  spec.plan = context_.plans.Get(
      op.algorithm,
      {.members = members,
       .self = self_,
       .elements = SpaceOf(layout),
       .slice_elements = std::max<std::uint64_t>(1, chosen.slice_bytes / element_bytes),
       .levels = op.algorithm == Algorithm::kHierarchical ? epoch_.levels
                                                          : std::vector<collective::Level>(),
       .collective = first.collective,
       .sum_order =
           sums && (op.algorithm == Algorithm::kDirect || op.algorithm == Algorithm::kNaive)
               ? sum_order_
               : std::vector<Member>()},
      layout);
  spec.dtype = first.dtype;
  spec.reduction = sums ? first.reduction : Reduction::kSum;
  spec.world_size = epoch_.world_size;
  bool wants_shared = false;
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    if (op.local[i]) {
      spec.locals.push_back(TensorOf(*op.local[i], locals_[i].rank));
      wants_shared = wants_shared || op.local[i]->shared_result;
    }
  }
  if (wants_shared) {
    op.shared = context_.memory.AllocateResult(epoch_.token, bytes);
    if (!op.shared) {
      return std::nullopt;
    }
    spec.shared_result = op.shared->view;
  }
  return spec;
}

void Job::Compare(const Op& op, TimePoint now) {
  if (!op.row || !op.alone || op.row_of != epoch_.tuning.version ||
      !context_.executions.IsAlone(op.first_token)) {
    return;
  }
  const collective::TuningRow& row = epoch_.tuning.rows[*op.row];
  const Submission& first = AnyOf(op);
  const double predicted = row.SecondsFor(first.elements * SizeOf(first.dtype));
  // The first member chose, perhaps by another table.
  if (predicted > 0 && row.algorithm == op.algorithm) {
    ratios_.Add(*op.row, std::chrono::duration<double>(now - op.started).count(), predicted);
  }
}

}  // namespace maypole::agent
