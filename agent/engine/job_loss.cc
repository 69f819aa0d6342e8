// The part of Job that deals with time and loss: who is missing, who left, who died, and what
// everybody else is told.

#include <algorithm>
#include <cstdio>
#include <utility>

#include "agent/engine/job.h"
#include "common/check.h"
#include "proto/announce.h"

namespace maypole::agent {
namespace {

// Of an op that nobody gave less time than twice this.
constexpr Duration kNewsAfter = std::chrono::seconds(1);
// Ops that failed and are kept for ranks that have not submitted them.
constexpr std::size_t kFailedOpsMax = 8192;

template <typename Map>
std::vector<OpKey> KeysOf(const Map& ops) {
  std::vector<OpKey> keys;
  keys.reserve(ops.size());
  for (const auto& [key, op] : ops) {
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

// ---- loss

void Job::OnSessionGone(SessionId session, bool died, const std::string& reason, TimePoint now) {
  LocalRank& local = locals_[LocalIndex(session)];
  if (std::exchange(local.gone, true)) {
    return;
  }
  --live_sessions_;
  std::erase_if(shared_results_, [&](const auto& entry) { return entry.first.first == session; });
  const std::string who = DescribeRanksWithHosts({local.rank});
  if (died) {
    Fail({ErrorCode::kPeerLost,
          who + " was lost: " + reason,
          ListRanks({local.rank}) + ";hosts=" + HostsOf({local.rank})},
         Loss::kRank,
         now);
  } else {
    departed_.insert(local.rank);
    departure_reasons_[local.rank] = reason;
    // What it has submitted is not to be counted as missing by the others.
    for (auto& [key, op] : ops_) {
      if (!op.failure) {
        SendNews(key, op);
      }
    }
    FrameHeader header = Header(FrameKind::kJobFailed, {});
    header.flags = kRankLeft;
    header.op = local.rank.value();
    ToMembers(header, EncodeOutcome({ErrorCode::kPeerLost, reason, {}}));
  }
  // Whoever is left may wait for this rank; and tombstones no longer wait for it.
  for (const OpKey& key : KeysOf(ops_)) {
    FailDeparted(key, now);
    Settle(key, now);
  }
}

bool Job::Needs(PeerId peer) const {
  const auto found = std::find(peers_.begin(), peers_.end(), peer);
  if (found == peers_.end() || (failure_ && !HasLiveOps())) {
    return false;
  }
  const EpochMember& member = epoch_.members[static_cast<std::size_t>(found - peers_.begin())];
  const bool all_left = std::all_of(member.ranks.begin(), member.ranks.end(), [&](Rank rank) {
    return departed_.contains(rank);
  });
  // When all its ranks have left, its work is done once nothing is under way that they submitted.
  const auto index = static_cast<std::size_t>(found - peers_.begin());
  return !all_left || std::any_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
    return !entry.second.completed && entry.second.announces[index].has_value();
  });
}

std::vector<PeerId> Job::SilentPeers(TimePoint now) const {
  std::vector<PeerId> silent;
  for (std::size_t m = 0; m < peers_.size(); ++m) {
    const PeerId peer = peers_[m];
    if (peer != 0 && context_.peers.Expired(peer, heard_[m], now) && Needs(peer)) {
      silent.push_back(peer);
    }
  }
  return silent;
}

void Job::OnPeerLost(PeerId peer, const std::string& text, TimePoint now) {
  if (!Needs(peer)) {
    return;
  }
  const auto found = std::find(peers_.begin(), peers_.end(), peer);
  const EpochMember& member = epoch_.members[static_cast<std::size_t>(found - peers_.begin())];
  Fail({ErrorCode::kPeerLost,
        "the agent of node " + member.node + " (host " + member.host + ") with " +
            FormatRanks(member.ranks) + " was lost: " + text,
        ListRanks(member.ranks) + ";hosts=" + member.host},
       Loss::kAgent,
       now);
}

// Ops that run need the agents only, and whether those live the agents know better.
void Job::OnFailedElsewhere(Outcome outcome, TimePoint now) {
  Fail(std::move(outcome), Loss::kRank, now);
}

void Job::Fail(Outcome outcome, Loss loss, TimePoint now) {
  if (!failure_) {
    failure_ = std::move(outcome);
    ++context_.epochs_version;
    FrameHeader header = Header(FrameKind::kJobFailed, {});
    header.flags = loss == Loss::kAgent ? kAgentLost : 0;
    ToMembers(header, EncodeOutcome(*failure_));
    context_.actions.emplace_back(TellCoordinator{
        FailureReport{epoch_.job, epoch_.token, epoch_.epoch, failure_->text, failure_->culprits}});
    context_.actions.emplace_back(
        LogLine{LogLine::Level::kWarning, "job \"" + epoch_.job + "\" failed: " + failure_->text});
  }
  for (const OpKey& key : KeysOf(ops_)) {
    const auto op = ops_.find(key);
    if (op != ops_.end() && (loss == Loss::kAgent || !op->second.execution)) {
      const Outcome failure{failure_->code,
                            DescribeOp(key, op->second) + " failed: " + failure_->text,
                            failure_->culprits};
      // Who has our announce may have started, and would wait for our data.
      const bool announced = op->second.announces[self_.value()].has_value();
      FailOp(key, failure, /*tell_members=*/announced, now);
    }
    Settle(key, now);  // one that failed before waits for nobody now
  }
  FailIdleSessions();
}

// It ends all waits of the client, whose tensors are its own then: so they must be restored before.
void Job::FailIdleSessions() {
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    LocalRank& local = locals_[i];
    const bool is_idle = std::none_of(ops_.begin(), ops_.end(), [i](const auto& entry) {
      return entry.second.local[i].has_value() && !entry.second.completed;
    });
    if (is_idle && !local.gone && !std::exchange(local.told_of_failure, true)) {
      context_.actions.emplace_back(FailSession{local.session, *failure_});
    }
  }
}

// A rank that left had submitted what its agent announced; only what it will never submit fails.
void Job::FailDeparted(const OpKey& key, TimePoint now) {
  const auto found = ops_.find(key);
  if (found == ops_.end() || found->second.failure || found->second.execution ||
      departed_.empty()) {
    return;
  }
  Op& op = found->second;
  const std::vector<Rank> missing = MissingRanks(op);
  std::vector<Rank> departed;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(departed), [&](Rank rank) {
    return departed_.contains(rank) && !op.announces[MemberOf(rank).value()];
  });
  if (departed.empty()) {
    return;
  }
  FailOp(key,
         {ErrorCode::kPeerLost,
          DescribeOp(key, op) + " can never complete: " + DescribeRanksWithHosts(departed) +
              " left the job (" + departure_reasons_[departed.front()] + ") without submitting it",
          ListRanks(departed) + ";hosts=" + HostsOf(departed)},
         /*tell_members=*/true,
         now);
}

// ---- time

void Job::OnTick(TimePoint now) {
  TellRatios(now);
  ReportStalls(now);
  std::size_t failed_ops = 0;
  for (const OpKey& key : KeysOf(ops_)) {
    Op& op = ops_.at(key);
    if (op.failure) {
      ++failed_ops;
      continue;
    }
    if (op.execution && op.execution->transfer_failed()) {
      FailOp(key,
             {ErrorCode::kPeerLost,
              DescribeOp(key, op) + " failed: the connection to another agent broke",
              {}},
             /*tell_members=*/true,
             now);
      continue;
    }
    // Well before a short deadline, or it would blame ranks whose news had not come.
    const Duration news_after = op.deadline == kNever
                                    ? kNewsAfter
                                    : std::min(kNewsAfter, (op.deadline - op.first_seen) / 2);
    if (!op.execution && now - op.first_seen >= news_after) {
      SendNews(key, op);
    }
    CheckDeadline(key, op, now);
  }
  if (failed_ops > kFailedOpsMax) {
    Fail({ErrorCode::kResourceExhausted,
          std::to_string(failed_ops) + " ops have failed that not all ranks of node " +
              context_.options.node + " have submitted, more than the " +
              std::to_string(kFailedOpsMax) +
              " that are kept for them; does a rank try again and again what others never submit?",
          "hosts=" + context_.options.host},
         Loss::kRank,
         now);
  }
}

// Some local ranks have submitted a stalled op and some have not: lets the others name the right
// ones.
void Job::SendNews(const OpKey& key, Op& op) {
  const auto submitted = static_cast<std::size_t>(
      std::count_if(op.local.begin(), op.local.end(), [](const auto& s) { return s.has_value(); }));
  if (LocallyComplete(op) || std::exchange(op.news_sent, submitted) == submitted) {
    return;
  }
  FrameHeader header = Header(FrameKind::kAnnounce, key);
  header.flags = kAnnouncePartial;
  ToMembersOf(op, header, EncodeAnnounce(MakeAnnounce(op)));
}

void Job::ReportStalls(TimePoint now) {
  std::map<std::vector<Rank>, std::vector<Ops::const_iterator>> stalls;  // by whom they wait for
  for (auto entry = ops_.begin(); entry != ops_.end(); ++entry) {
    Op& op = entry->second;
    if (!op.failure && !op.execution && !op.stall_reported &&
        now - op.first_seen >= context_.options.stall_report_after) {
      op.stall_reported = true;
      stalls[MissingRanks(op)].push_back(entry);
    }
  }
  for (const auto& [missing, ops] : stalls) {
    const auto& [key, oldest] =
        **std::min_element(ops.begin(), ops.end(), [](const auto& a, const auto& b) {
          return a->second.order < b->second.order;
        });
    const std::size_t others = ops.size() - 1;
    context_.actions.emplace_back(
        LogLine{LogLine::Level::kWarning,
                "job \"" + epoch_.job + "\": " + DescribeOp(key, oldest) +
                    (others == 0 ? "" : " (and " + std::to_string(others) + " more)") +
                    " has waited for " + SecondsText(now - oldest.first_seen) + " for " +
                    DescribeRanksWithHosts(missing) + ", not submitted there yet"});
  }
}

void Job::CheckDeadline(const OpKey& key, Op& op, TimePoint now) {
  if (now < op.deadline) {
    return;
  }
  const std::string what =
      DescribeOp(key, op) + " timed out after " + SecondsText(now - op.first_seen) + ": ";
  Outcome outcome{.code = ErrorCode::kTimeout, .text = {}, .culprits = {}};
  std::vector<Rank> awaited = MissingRanks(op);
  if (!op.execution) {
    outcome.text = what + DescribeRanksWithHosts(awaited) +
                   (awaited.size() == 1 ? " has" : " have") + " not submitted it";
  } else {
    for (const Member member : op.execution->AwaitedPeers()) {
      const auto& ranks = epoch_.members[member.value()].ranks;
      awaited.insert(awaited.end(), ranks.begin(), ranks.end());
    }
    outcome.text =
        what + (awaited.empty() ? std::string("its last sends were not taken by the other agents")
                                : "still waiting for data from the agent of " +
                                      DescribeRanksWithHosts(awaited));
  }
  if (!awaited.empty()) {
    outcome.culprits = "waiting_" + ListRanks(awaited) + ";hosts=" + HostsOf(awaited);
  }
  FailOp(key, std::move(outcome), /*tell_members=*/true, now);
}

void Job::SendHeartbeats() {
  ToMembers(Header(FrameKind::kHeartbeat, {}), {});
}

std::vector<WaitingFor> Job::Waiting(TimePoint now) const {
  std::vector<WaitingFor> waiting;
  for (const auto& [key, op] : ops_) {
    if (op.failure) {
      continue;
    }
    WaitingFor entry{.name = op.name,
                     .occurrence = key.occurrence,
                     .waited = now - op.first_seen,
                     .missing = {},
                     .reason = {}};
    if (op.execution) {
      entry.reason = "bytes are moving between the agents";
    } else {
      entry.missing = MissingRanks(op);
      entry.reason = DescribeRanksWithHosts(entry.missing) +
                     (entry.missing.size() == 1 ? " has" : " have") + " not submitted it";
    }
    waiting.push_back(std::move(entry));
  }
  return waiting;
}

// ---- words

// Ranks that are not known to have submitted the op.
std::vector<Rank> Job::MissingRanks(const Op& op) const {
  std::vector<Rank> missing;
  for (std::uint32_t m = 0; m < epoch_.members.size(); ++m) {
    if (op.announces[m]) {
      continue;
    }
    for (const Rank rank : epoch_.members[m].ranks) {
      if (!TakesPart(op.pair, rank)) {
        continue;
      }
      bool submitted = std::find(op.news[m].begin(), op.news[m].end(), rank) != op.news[m].end();
      for (std::size_t i = 0; Member(m) == self_ && i < locals_.size(); ++i) {
        submitted = submitted || (locals_[i].rank == rank && op.local[i]);
      }
      if (!submitted) {
        missing.push_back(rank);
      }
    }
  }
  return missing;
}

std::string Job::DescribeOp(const OpKey& key, const Op& op) const {
  std::string text = Describe(op.collective, op.name, key.occurrence);
  if (op.pair) {
    text += " from rank " + std::to_string(op.pair->first.value()) + " to rank " +
            std::to_string(op.pair->second.value());
  }
  return text;
}

Member Job::MemberOf(Rank rank) const {
  return Member(placement_->at(rank.value()));
}

// "rank 3 on node-b (host h2)", "ranks 2, 3 on node-b (host h2) and rank 5 on node-c (host h3)"
std::string Job::DescribeRanksWithHosts(const std::vector<Rank>& ranks) const {
  std::map<std::uint32_t, std::vector<Rank>> by_member;
  for (const Rank rank : ranks) {
    by_member[MemberOf(rank).value()].push_back(rank);
  }
  std::string text;
  for (const auto& [member, group] : by_member) {
    text += (text.empty() ? "" : " and ") + FormatRanks(group) + " on " +
            epoch_.members[member].node + " (host " + epoch_.members[member].host + ")";
  }
  return text.empty() ? "nobody" : text;
}

std::string Job::HostsOf(const std::vector<Rank>& ranks) const {
  std::set<std::string> hosts;
  for (const Rank rank : ranks) {
    hosts.insert(epoch_.members[MemberOf(rank).value()].host);
  }
  std::string text;
  for (const std::string& host : hosts) {
    text += (text.empty() ? "" : ",") + host;
  }
  return text;
}

FrameHeader Job::Header(FrameKind kind, const OpKey& key) const {
  FrameHeader header;
  header.kind = kind;
  header.token = epoch_.token.value();
  header.epoch = epoch_.epoch.value();
  header.sender = self_.value();
  header.op = key.hash;
  header.occurrence = key.occurrence;
  return header;
}

void Job::ToMembers(const FrameHeader& header, const std::vector<std::byte>& body) {
  for (const PeerId peer : peers_) {
    if (peer != 0) {
      context_.peers.SendControl(peer, header, body, context_.actions);
    }
  }
}

void Job::ToMembersOf(const Op& op, const FrameHeader& header, const std::vector<std::byte>& body) {
  for (std::uint32_t m = 0; m < peers_.size(); ++m) {
    if (peers_[m] != 0 && TakesPart(op, Member(m))) {
      context_.peers.SendControl(peers_[m], header, body, context_.actions);
    }
  }
}

}  // namespace maypole::agent
