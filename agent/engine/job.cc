#include "agent/engine/job.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/check.h"
#include "proto/announce.h"

namespace maypole::agent {
namespace {

// Between reports of a member, longer in large jobs: the coordinator hears at most 64 a second.
constexpr Duration kRatiosEvery = std::chrono::milliseconds(250);
constexpr std::size_t kMembersPerRatios = 16;

std::shared_ptr<const collective::Placement> PlacementOf(const EpochInfo& epoch) {
  collective::Placement placement(epoch.world_size);
  for (std::uint32_t member = 0; member < epoch.members.size(); ++member) {
    for (const Rank rank : epoch.members[member].ranks) {
      placement.at(rank.value()) = member;
    }
  }
  return std::make_shared<const collective::Placement>(std::move(placement));
}

// The ring may be another in the next run; the order of a sum should not.
std::vector<Member> SumOrderOf(const EpochInfo& epoch) {
  std::vector<Member> order;
  for (std::uint32_t m = 0; m < epoch.members.size(); ++m) {
    order.emplace_back(m);
  }
  const auto lowest_rank = [&](Member m) { return epoch.members[m.value()].ranks.front(); };
  const auto is_before = [&](Member a, Member b) { return lowest_rank(a) < lowest_rank(b); };
  if (std::is_sorted(order.begin(), order.end(), is_before)) {
    return {};
  }
  std::sort(order.begin(), order.end(), is_before);
  return order;
}

}  // namespace

Job::Job(EpochInfo epoch,
         Member self,
         std::map<Rank, SessionId> sessions,
         CoreContext context,
         TimePoint now)
    : epoch_(std::move(epoch)),
      self_(self),
      placement_(PlacementOf(epoch_)),
      sum_order_(SumOrderOf(epoch_)),
      context_(context),
      heard_(epoch_.members.size(), now) {
  for (const auto& [rank, session] : sessions) {
    locals_.push_back(
        {.rank = rank, .session = session, .gone = false, .told_of_failure = false, .uses = {}});
  }
  live_sessions_ = locals_.size();
  for (std::uint32_t i = 0; i < epoch_.members.size(); ++i) {
    const EpochMember& member = epoch_.members[i];
    const std::uint64_t generation =
        std::max(member.generation, epoch_.members[self_.value()].generation);
    peers_.push_back(
        Member(i) == self_ ? 0 : context_.peers.Ensure(member, generation, now, context_.actions));
    if (peers_.back() != 0) {
      context_.peers.Use(peers_.back(), true);
    }
  }
  ToMembers(Header(FrameKind::kHello, {}), {});
  for (std::uint32_t i = 0; i < locals_.size(); ++i) {
    context_.actions.emplace_back(
        SessionReady{.session = locals_[i].session,
                     .outcome = {},
                     .token = epoch_.token,
                     .epoch = epoch_.epoch,
                     .local_rank = i,
                     .local_world_size = static_cast<std::uint32_t>(locals_.size()),
                     .nodes = static_cast<std::uint32_t>(epoch_.members.size()),
                     .default_timeout = context_.options.default_timeout,
                     .lease = context_.peers.lease()});
  }
  for (const PeerId peer : peers_) {
    if (peer != 0 && context_.peers.Lost(peer)) {
      OnPeerLost(peer, "its connection was lost when the job formed", now);
    }
  }
}

Job::~Job() {
  for (const PeerId peer : peers_) {
    if (peer != 0) {
      context_.peers.Use(peer, false);
    }
  }
  shared_results_.clear();
  context_.memory.ReleaseJob(epoch_.token);
}

// ---- submissions

std::size_t Job::LocalIndex(SessionId session) const {
  const auto found = std::find_if(locals_.begin(), locals_.end(), [&](const LocalRank& local) {
    return local.session == session;
  });
  MAYPOLE_CHECK(found != locals_.end());
  return static_cast<std::size_t>(found - locals_.begin());
}

Job::Op& Job::FindOrCreate(const OpKey& key, TimePoint now) {
  const auto [entry, is_new] = ops_.try_emplace(key);
  Op& op = entry->second;
  if (is_new) {
    op.order = context_.next_order++;
    op.local.resize(locals_.size());
    op.announces.resize(epoch_.members.size());
    op.news.resize(epoch_.members.size());
    op.first_seen = now;
  }
  return op;
}

bool Job::TakesPart(const std::optional<Pair>& pair, Rank rank) {
  return !pair || pair->first == rank || pair->second == rank;
}

bool Job::TakesPart(const Op& op, Member member) const {
  return !op.pair || MemberOf(op.pair->first) == member || MemberOf(op.pair->second) == member;
}

bool Job::LocallyComplete(const Op& op) const {
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    if (!op.local[i] && TakesPart(op.pair, locals_[i].rank)) {
      return false;
    }
  }
  return true;
}

// True if every local rank that takes part has submitted this occurrence, so that nobody here still
// waits to hear of it.
bool Job::SubmittedBefore(const OpKey& key, const std::optional<Pair>& pair) const {
  const auto is_through = [&](const LocalRank& local) {
    const auto uses = local.uses.find(key.hash);
    return local.gone || (uses != local.uses.end() && uses->second > key.occurrence);
  };
  if ((key.hash & kPairBit) != 0 && !pair) {
    // Of a pair that only the hash tells, and only its rank here uses the hash.
    return std::all_of(locals_.begin(),
                       locals_.end(),
                       [&](const LocalRank& local) {
                         return is_through(local) || !local.uses.contains(key.hash);
                       }) &&
           std::any_of(locals_.begin(), locals_.end(), is_through);
  }
  return std::all_of(locals_.begin(), locals_.end(), [&](const LocalRank& local) {
    return !TakesPart(pair, local.rank) || is_through(local);
  });
}

// False for news about an op that has ended here, or will never be submitted here.
bool Job::MayBegin(const OpKey& key, const std::optional<Pair>& pair) const {
  return ops_.contains(key) || (!failure_ && !SubmittedBefore(key, pair));
}

void Job::Submit(Submission submission, TimePoint now) {
  const std::size_t index = LocalIndex(submission.session);
  LocalRank& local = locals_[index];
  const auto refuse = [&](Outcome outcome) {
    context_.actions.emplace_back(
        CompleteOp{submission.session, submission.slot, std::move(outcome), {}});
  };
  if (failure_) {
    refuse(*failure_);
    return;
  }
  if (Outcome checked = CheckRanks(submission, local.rank, epoch_.world_size); !checked.ok()) {
    refuse(std::move(checked));
    return;
  }
  const std::uint64_t hash = HashOf(submission);
  if (!local.uses.contains(hash) && local.uses.size() >= context_.options.names_per_job_max) {
    refuse({ErrorCode::kResourceExhausted,
            "this rank has used " + std::to_string(local.uses.size()) +
                " different op names, which is the limit; give a tensor the same name "
                "in every step, its uses are counted",
            {}});
    return;
  }
  const OpKey key{hash, local.uses[hash]++};
  Op& op = FindOrCreate(key, now);
  if (op.name.empty()) {
    op.name = submission.name;
  }
  op.collective = static_cast<std::uint8_t>(submission.collective);
  if (submission.collective == collective::Collective::kSendReceive) {
    op.pair = {submission.root, submission.peer};
  }
  const Duration timeout =
      submission.timeout > Duration(0) ? submission.timeout : context_.options.default_timeout;
  op.deadline = std::min(op.deadline, Later(now, timeout));
  op.local[index] = std::move(submission);
  if (op.failure) {
    context_.actions.emplace_back(
        CompleteOp{op.local[index]->session, op.local[index]->slot, *op.failure, {}});
    Settle(key, now);
    return;
  }
  if (LocallyComplete(op)) {
    AnnounceOwn(key, op);
    TryStart(key, now);
    if (!ops_.contains(key)) {
      return;
    }
  }
  FailDeparted(key, now);
}

bool Job::Tune(collective::TuningTable tuning) {
  if (tuning.version <= epoch_.tuning.version) {
    return false;
  }
  for (std::size_t row = 0; row < epoch_.tuning.rows.size(); ++row) {
    if (!IsSameRow(epoch_.tuning, tuning, row)) {
      ratios_.Forget(row);
    }
  }
  epoch_.tuning = std::move(tuning);
  return true;
}

void Job::TellRatios(TimePoint now) {
  if (now < next_ratios_) {
    return;
  }
  next_ratios_ = now + kRatiosEvery * (1 + epoch_.members.size() / kMembersPerRatios);
  if (std::vector<RowMeasured> rows = ratios_.Take(); !rows.empty()) {
    context_.actions.emplace_back(TellCoordinator{
        RowsMeasured{epoch_.job, epoch_.token, epoch_.tuning.version, std::move(rows)}});
  }
}

collective::Choice Job::ChoiceFor(const Submission& submission) const {
  const auto members = static_cast<std::uint32_t>(epoch_.members.size());
  collective::Choice choice = collective::Select(submission.collective,
                                                 submission.elements * SizeOf(submission.dtype),
                                                 members,
                                                 submission.dtype,
                                                 submission.algorithm,
                                                 epoch_.tuning);
  if (members == 1) {
    choice.slice_bytes = context_.options.local_slice_bytes;
  } else if (choice.slice_bytes == 0) {
    choice.slice_bytes = context_.options.slice_bytes;
  }
  return choice;
}

Announce Job::MakeAnnounce(const Op& op) const {
  Announce announce{.name = op.name, .groups = {}};
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    if (!op.local[i]) {
      continue;
    }
    if (announce.groups.empty()) {
      const collective::Choice choice = ChoiceFor(*op.local[i]);
      announce.algorithm = static_cast<std::uint8_t>(choice.algorithm);
      announce.slice_bytes = static_cast<std::uint32_t>(choice.slice_bytes);
    }
    AnnounceGroup own = GroupOf(*op.local[i]);
    auto group = std::find_if(announce.groups.begin(),
                              announce.groups.end(),
                              [&](const AnnounceGroup& g) { return g.shape == own.shape; });
    if (group == announce.groups.end()) {
      group = announce.groups.insert(group, std::move(own));
    }
    group->ranks.push_back(locals_[i].rank);
  }
  return announce;
}

void Job::AnnounceOwn(const OpKey& key, Op& op) {
  op.announces[self_.value()] = MakeAnnounce(op);
  const collective::TuningRow* row = ChoiceFor(AnyOf(op)).row;
  op.row = row == nullptr
               ? std::nullopt
               : std::optional(static_cast<std::size_t>(row - epoch_.tuning.rows.data()));
  op.row_of = epoch_.tuning.version;
  ToMembersOf(op, Header(FrameKind::kAnnounce, key), EncodeAnnounce(*op.announces[self_.value()]));
}

// ---- executions

void Job::OnTokenDone(const OpKey& key, std::uint64_t token, bool ok, TimePoint now) {
  Op& op = ops_.at(key);
  ExecutionOutput out;
  op.execution->OnTokenDone(token, ok, out);
  Flush(key, op, out);
  Settle(key, now);
}

void Job::Flush(const OpKey& key, Op& op, ExecutionOutput& out) {
  for (Action& action : out.actions) {
    context_.actions.push_back(std::move(action));
  }
  for (const QueuedSend& send : out.sends) {
    FrameHeader header = Header(FrameKind::kData, key);
    header.ordinal = send.ordinal;
    std::int32_t priority = std::numeric_limits<std::int32_t>::min();
    for (const auto& submission : op.local) {
      priority = submission ? std::max(priority, submission->priority) : priority;
    }
    context_.peers.QueueData(peers_[send.peer.value()],
                             {.priority = priority,
                              .op_order = op.order,
                              .header = header,
                              .payload = send.payload,
                              .token = send.token},
                             context_.actions);
  }
}

void Job::FailOp(const OpKey& key, Outcome outcome, bool tell_members, TimePoint now) {
  Op& op = ops_.at(key);
  if (op.failure || (op.execution && !op.execution->CanFail())) {
    return;
  }
  op.failure = std::move(outcome);
  for (const ParkedFrame& frame : std::exchange(op.parked, {})) {
    Drop(frame.header, frame.payload.id);
  }
  if (tell_members) {
    ToMembersOf(op, Header(FrameKind::kAbort, key), EncodeOutcome(*op.failure));
  }
  if (op.execution) {
    ExecutionOutput out;
    op.execution->Abort(out);
    for (const TransferToken token : context_.peers.Withdraw(
             op.first_token, op.first_token + (std::uint64_t{1} << Execution::kTokenBits))) {
      op.execution->OnTokenDone(token, false, out);
    }
    Flush(key, op, out);
  }
  Settle(key, now);
}

void Job::Settle(const OpKey& key, TimePoint now) {
  const auto found = ops_.find(key);
  if (found == ops_.end()) {
    return;
  }
  Op& op = found->second;
  const bool was_completed = op.completed;
  if (op.execution && !op.failure) {
    if (op.execution->out_of_memory()) {
      FailOp(key,
             {ErrorCode::kResourceExhausted,
              DescribeOp(key, op) + ": no memory on " + context_.options.node +
                  " for partial sums while it ran; submit less at a time, or give the agent more",
              {}},
             /*tell_members=*/true,
             now);
      return;
    }
    if (!op.execution->Succeeded()) {
      return;
    }
    Compare(op, now);
    CompleteLocals(op, {}, now);
  } else if (op.failure && !op.completed) {
    if (op.execution && !op.execution->Restored()) {
      return;
    }
    CompleteLocals(op, *op.failure, now);
  }
  if (failure_ && !was_completed) {
    FailIdleSessions();
  }
  // In a failed job nobody submits any more, so nobody is left to be told.
  const bool told_all = op.completed && (!op.failure || failure_ || SubmittedBefore(key, op.pair));
  if (!told_all || (op.execution && !op.execution->Drained())) {
    return;
  }
  if (op.execution) {
    context_.executions.Remove(op.first_token);
  }
  ops_.erase(found);
}

void Job::CompleteLocals(Op& op, const Outcome& outcome, TimePoint now) {
  op.completed = true;
  std::shared_ptr<SharedResult> shared;
  if (op.shared) {
    Memory& memory = context_.memory;
    const JobToken token = epoch_.token;
    shared = std::shared_ptr<SharedResult>(
        new SharedResult(*op.shared), [&memory, token](SharedResult* result) {
          memory.FreeResult(token, *result);
          delete result;  // NOLINT(cppcoreguidelines-owning-memory): the deleter of a shared_ptr
        });
  }
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    if (!op.local[i] || locals_[i].gone) {
      continue;
    }
    CompleteOp done{op.local[i]->session, op.local[i]->slot, outcome, {}};
    if (shared && outcome.ok() && op.local[i]->shared_result) {
      done.result = *shared;
      shared_results_[{done.session, done.slot}] = shared;
    }
    context_.actions.emplace_back(std::move(done));
  }
  const auto any = std::find_if(op.local.begin(), op.local.end(), [](const auto& submission) {
    return submission.has_value();
  });
  if (any != op.local.end()) {
    const bool ran = op.execution != nullptr;
    context_.actions.emplace_back(
        OpFinished{.collective = (*any)->collective,
                   .algorithm = op.algorithm,
                   .bytes = (*any)->elements * SizeOf((*any)->dtype),
                   .world_size = epoch_.world_size,
                   .members = static_cast<std::uint32_t>(epoch_.members.size()),
                   .waited = (ran ? op.started : now) - op.first_seen,
                   .ran = ran ? now - op.started : Duration(0),
                   .code = outcome.code});
  }
}

void Job::OnResultReleased(SessionId session, std::uint32_t slot) {
  shared_results_.erase({session, slot});
}

std::size_t Job::LiveOps() const {
  return static_cast<std::size_t>(std::count_if(
      ops_.begin(), ops_.end(), [](const auto& entry) { return !entry.second.completed; }));
}

bool Job::HasLiveOps() const {
  return std::any_of(
      ops_.begin(), ops_.end(), [](const auto& entry) { return !entry.second.completed; });
}

bool Job::UsesSession(SessionId session) const {
  return std::any_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
    const Op& op = entry.second;
    const bool in_use = op.execution ? !op.execution->Drained() : !op.failure;
    return in_use && std::any_of(op.local.begin(), op.local.end(), [&](const auto& submission) {
             return submission && submission->session == session;
           });
  });
}

}  // namespace maypole::agent
