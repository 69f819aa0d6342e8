// The promises, checked on what a run left behind.

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tests/sim/sim_cluster.h"

namespace maypole::sim {
namespace {

constexpr Duration kSoon = std::chrono::seconds(1);
constexpr std::size_t kComplaintsMax = 20;
constexpr double kToleranceF32 = 1e-5;

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void SimCluster::Complain(const std::string& what) {
  if (violations_.size() < kComplaintsMax) {
    violations_.push_back("at " + std::to_string(Seconds(queue_.now().time_since_epoch()) - 3600) +
                          " s: " + what);
  }
}

std::string SimCluster::DescribeUse(const SimRank& rank, const OpUse& use) const {
  const OpSpec& op = jobs_[rank.job].ops[use.op];
  return jobs_[rank.job].name + " rank " + std::to_string(rank.rank.value()) + " op " +
         std::to_string(use.op) + " \"" + op.name + "\" (" + std::string(Name(op.collective)) +
         " " + std::string(collective::Name(op.algorithm)) + " " + std::string(Name(op.dtype)) +
         " " + std::string(Name(op.reduction)) + " " + std::to_string(use.elements) +
         (use.shared      ? " shared"
          : use.overwrite ? " overwrite"
                          : " in place") +
         (use.outcome.text.empty() ? ")" : "): " + use.outcome.text);
}

collective::Placement SimCluster::PlacementOf(const SimJob& job) const {
  std::map<int, std::uint32_t> members;  // by node
  collective::Placement placement;
  for (const std::size_t index : job.ranks) {
    const auto next = static_cast<std::uint32_t>(members.size());
    placement.push_back(members.emplace(ranks_[index].node, next).first->second);
  }
  return placement;
}

// What the op reads is as submitted; what it only writes may hold anything after a failure.
void SimCluster::CheckRestored(const SimRank& rank, const OpUse& use) {
  const SimJob& job = jobs_[rank.job];
  const OpSpec& op = job.ops[use.op];
  if (use.overwrite || *use.tensor == *use.input) {
    return;
  }
  bool is_restored = !use.shared && !op.differs_at;  // in a mismatch nothing may be written
  for (const collective::Part& part : PartsOf(LayoutOf(op, PlacementOf(job)))) {
    const std::uint64_t size = SizeOf(op.dtype);
    is_restored = is_restored && (!part.ComesFrom(rank.rank.value()) ||
                                  std::memcmp(use.tensor->data() + part.input_begin * size,
                                              use.input->data() + part.input_begin * size,
                                              part.range.size() * size) == 0);
  }
  if (!is_restored) {
    Complain("the input is not as submitted: " + DescribeUse(rank, use));
  }
}

void SimCluster::CheckEnd() {
  for (const SimJob& job : jobs_) {
    CheckAnswers(job);
    for (std::size_t op = 0; op < job.ops.size(); ++op) {
      CheckOp(job, op);
    }
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    CheckNode(nodes_[i], static_cast<int>(i));
  }
  const bool all_live =
      std::none_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.dead; });
  for (const std::string& job : all_live ? coordinator_->Jobs() : std::vector<std::string>()) {
    Complain("the coordinator still knows a job that is over: " + job);
  }
}

void SimCluster::CheckAnswers(const SimJob& job) {
  for (const std::size_t index : job.ranks) {
    const SimRank& rank = ranks_[index];
    for (const auto& [slot, use] : rank.slots) {
      if (!rank.gone) {
        Complain("never completed: " + DescribeUse(rank, rank.uses[use]));
      }
    }
    if (rank.gone && !rank.released) {
      Complain(job.name + " rank " + std::to_string(rank.rank.value()) +
               " is gone and its session was not released");
    }
    for (const OpUse& use : rank.uses) {
      if (use.completed) {
        CheckBounds(job, rank, use);
      }
    }
  }
}

void SimCluster::CheckBounds(const SimJob& job, const SimRank& rank, const OpUse& use) {
  const Duration timeout = job.ops[use.op].timeout;
  TimePoint bound = *use.submitted + core_options_.lease + kSoon + paused_for_ +
                    (timeout > Duration(0) ? timeout : core_options_.default_timeout);
  if (job.process_death && job.silences.empty() && !job.disturbed) {
    bound = std::min(bound, std::max(*use.submitted, *job.process_death) + kSoon);
  }
  if (!job.silences.empty() && !job.disturbed) {
    // An op that failed is over when its sends are, also those to who falls silent while it fails.
    TimePoint after_silence = std::max(*use.submitted, *job.silences.begin());
    for (const TimePoint silence : job.silences) {
      if (silence <= after_silence + core_options_.lease + kSoon) {
        after_silence = std::max(after_silence, silence);
      }
    }
    bound = std::min(bound, after_silence + core_options_.lease + kSoon);
  }
  if (*use.completed > bound) {
    Complain("took " + std::to_string(Seconds(*use.completed - *use.submitted)) + " s, " +
             std::to_string(Seconds(*use.completed - bound)) +
             " s longer than promised: " + DescribeUse(rank, use));
  }
}

void SimCluster::CheckOp(const SimJob& job, std::size_t op) {
  std::vector<const Bytes*> tensors(job.ranks.size());
  std::vector<const OpUse*> uses;
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
    for (const OpUse& use : ranks_[job.ranks[rank]].uses) {
      if (use.op == op) {
        tensors[rank] = use.input.get();
        uses.push_back(&use);
      }
    }
  }
  CheckOutcomes(job, op, uses);
  const bool any_ok = std::any_of(uses.begin(), uses.end(), [](const OpUse* use) {
    return use->completed && use->outcome.ok();
  });
  if (!any_ok) {
    return;
  }
  const OpSpec& spec = job.ops[op];
  if (spec.differs_at || spec.forgotten_by) {
    Complain(job.name + " op " + std::to_string(op) + " succeeded and must not");
    return;
  }
  const collective::Placement placement = PlacementOf(job);
  const std::vector<std::byte> space = ExpectedSpace(spec, placement, tensors);
  // Measured links choose the order of members, and among algorithms; sums of floats then associate
  // in another way, but the same on all ranks.
  const bool is_measured =
      probes_ && collective::Sums(spec.collective) && AccumulatorOf(spec.dtype) <= DType::kF64;
  const std::vector<std::byte>* first = nullptr;
  for (const std::size_t index : job.ranks) {
    const SimRank& rank = ranks_[index];
    for (const OpUse& use : rank.uses) {
      if (use.op != op || !use.completed || !use.outcome.ok()) {
        continue;
      }
      std::vector<std::byte> expected(use.input->data(), use.input->data() + use.input->size());
      PutExpected(spec, placement, rank.rank.value(), space, expected);
      if (is_measured) {
        const bool is_same = spec.collective == collective::Collective::kAllReduce;
        first = first == nullptr ? &use.result : first;
        expected = is_same ? *first : use.result;
      }
      if (use.result != expected) {
        Complain("wrong bits: " + DescribeUse(rank, use));
      }
    }
  }
  const bool is_sum = Sums(spec.collective) &&
                      (spec.reduction == Reduction::kSum || spec.reduction == Reduction::kMean);
  if (is_sum && spec.dtype <= DType::kF64 &&
      ErrorAgainstFloat64(
          spec,
          ByMember(placement, tensors),
          is_measured && spec.collective == collective::Collective::kAllReduce ? *first : space) >
          kToleranceF32) {
    Complain(job.name + " op " + std::to_string(op) + " is far from the float64 sum");
  }
}

// Which outcomes may be, by what happened.
void SimCluster::CheckOutcomes(const SimJob& job,
                               std::size_t op,
                               const std::vector<const OpUse*>& uses) {
  const OpSpec& spec = job.ops[op];
  std::set<std::string> mismatches;
  TimePoint last_submitted{};
  for (const OpUse* use : uses) {
    if (!use->completed) {
      continue;
    }
    last_submitted = std::max(last_submitted, *use->submitted);
    const std::string where = job.name + " op " + std::to_string(op) + ": ";
    if (!use->outcome.ok() && use->outcome.text.empty()) {
      Complain(where + "failed without a word");
    }
    if (use->outcome.code == ErrorCode::kMismatch) {
      mismatches.insert(use->outcome.text);
    }
    if (!options_.faults.empty()) {
      continue;
    }
    const ErrorCode code = use->outcome.code;
    const bool as_expected = spec.differs_at ? code == ErrorCode::kMismatch
                             : spec.forgotten_by
                                 ? code == ErrorCode::kTimeout || code == ErrorCode::kPeerLost
                                 : code == ErrorCode::kOk;
    if (!as_expected) {
      Complain(where + "unexpected outcome: " + use->outcome.text);
    }
  }
  for (const OpUse* use : uses) {
    const bool waits_for_nobody = options_.faults.empty() && !spec.forgotten_by;
    if (waits_for_nobody && use->completed && *use->completed > last_submitted + kSoon) {
      Complain(job.name + " op " + std::to_string(op) + " took " +
               std::to_string(Seconds(*use->completed - last_submitted)) +
               " s after all was there");
    }
  }
  if (mismatches.size() > 1) {
    Complain(job.name + " op " + std::to_string(op) + " was refused with different texts: " +
             *mismatches.begin() + " / " + *mismatches.rbegin());
  }
}

void SimCluster::CheckNode(const Node& node, int id) {
  if (node.dead) {
    return;
  }
  const auto leaks = [&](std::size_t count, const char* what) {
    if (count != 0) {
      Complain(node.name + ": " + std::to_string(count) + " " + what);
    }
  };
  leaks(node.memory->scratch_in_use(), "pieces of scratch leaked");
  leaks(node.memory->results_in_use(), "results leaked");
  leaks(node.core->Epochs().size(), "jobs are left");
  leaks(node.core->Busy() ? 1 : 0, "ops are left");
  leaks(network_->PendingArrivals(id), "arrivals were neither received nor dropped");
  if (node.core->NextTick() != kNever && !node.paused) {
    Complain(node.name + " is idle and wants to be woken");
  }
}

std::string SimCluster::Describe() const {
  std::string text = std::to_string(nodes_.size()) + " nodes;";
  for (const SimJob& job : jobs_) {
    text += " " + job.name + " with " + std::to_string(job.ranks.size()) + " ranks and " +
            std::to_string(job.ops.size()) + " ops;";
  }
  for (const Fault fault : options_.faults) {
    text += std::string(" ") + Name(fault) + ";";
  }
  return text + " replay with MAYPOLE_SIM_SEED=" + std::to_string(seed_);
}

}  // namespace maypole::sim
