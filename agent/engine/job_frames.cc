// The part of Job that hears the other members: what a frame means for an op.

#include <algorithm>
#include <utility>

#include "agent/engine/job.h"
#include "proto/announce.h"

namespace maypole::agent {

void Job::OnFrame(const FrameHeader& header,
                  ArrivalId arrival,
                  std::span<const std::byte> body,
                  TimePoint now) {
  if (header.sender >= peers_.size() || Member(header.sender) == self_ ||
      header.epoch != epoch_.epoch.value()) {
    Drop(header, arrival);
    return;
  }
  context_.peers.Heard(peers_[header.sender], now);
  heard_[header.sender] = now;
  if (header.kind == FrameKind::kData) {
    if (header.payload_bytes > 0) {
      OnData(header, {arrival, header.payload_bytes, body}, now);
    }
    return;
  }
  switch (header.kind) {
    case FrameKind::kAnnounce:
      OnAnnounce(header, body, now);
      break;
    case FrameKind::kAbort:
      OnAbort(header, body, now);
      break;
    case FrameKind::kJobFailed:
      OnMemberFailed(header, body, now);
      break;
    case FrameKind::kHello:
    case FrameKind::kHeartbeat:
    case FrameKind::kData:
    case FrameKind::kProbe:  // not a job's
    case FrameKind::kProbeEcho:
      break;
  }
  Drop(header, arrival);
}

void Job::OnData(const FrameHeader& header, const ArrivedPayload& payload, TimePoint now) {
  const OpKey key{header.op, header.occurrence};
  const auto found = ops_.find(key);
  if (found == ops_.end() || found->second.failure) {
    Drop(header, payload.id);  // of an op that failed here
    return;
  }
  Op& op = found->second;
  if (!op.execution) {
    op.parked.push_back({header, payload});  // its sender has started: at most its schedule
    return;
  }
  ExecutionOutput out;
  const bool fits = op.execution->OnArrival(Member(header.sender), header.ordinal, payload, out);
  Flush(key, op, out);
  if (!fits) {
    context_.actions.emplace_back(
        LogLine{LogLine::Level::kWarning,
                DescribeOp(key, op) + ": dropped frame " + std::to_string(header.ordinal) + " of " +
                    std::to_string(header.payload_bytes) + " bytes from " +
                    epoch_.members[header.sender].node + ", which fits no step"});
  }
  Settle(key, now);
}

void Job::OnAnnounce(const FrameHeader& header, std::span<const std::byte> body, TimePoint now) {
  auto announce = DecodeAnnounce(body);
  const OpKey key{header.op, header.occurrence};
  if (!announce || announce->groups.empty()) {
    return;
  }
  std::optional<Pair> pair;
  if ((key.hash & kPairBit) != 0) {
    const OpShape& shape = announce->groups.front().shape;
    if (std::max(shape.root, shape.peer) >= epoch_.world_size) {
      return;
    }
    pair = {Rank(shape.root), Rank(shape.peer)};
    const Member sender(header.sender);
    const std::pair members(MemberOf(pair->first), MemberOf(pair->second));
    if (members != std::pair(self_, sender) && members != std::pair(sender, self_)) {
      return;  // not between the two of us
    }
  }
  if (!MayBegin(key, pair)) {
    return;
  }
  Op& op = FindOrCreate(key, now);
  if (op.pair && op.pair != pair) {
    return;
  }
  op.pair = pair;
  if (op.failure) {
    return;
  }
  if (op.name.empty()) {
    op.name = announce->name;
    op.collective = announce->groups.front().shape.collective;
  }
  if ((header.flags & kAnnouncePartial) != 0) {
    op.news[header.sender].clear();
    for (const AnnounceGroup& group : announce->groups) {
      op.news[header.sender].insert(
          op.news[header.sender].end(), group.ranks.begin(), group.ranks.end());
    }
    FailDeparted(key, now);
    return;
  }
  op.announces[header.sender] = std::move(announce);
  TryStart(key, now);
  if (ops_.contains(key)) {
    FailDeparted(key, now);
  }
}

void Job::OnAbort(const FrameHeader& header, std::span<const std::byte> body, TimePoint now) {
  const auto outcome = DecodeOutcome(body);
  const OpKey key{header.op, header.occurrence};
  if (!outcome || !MayBegin(key)) {
    return;
  }
  FindOrCreate(key, now);
  FailOp(key, *outcome, /*tell_members=*/false, now);
}

void Job::OnMemberFailed(const FrameHeader& header,
                         std::span<const std::byte> body,
                         TimePoint now) {
  const auto outcome = DecodeOutcome(body);
  if (!outcome) {
    return;
  }
  if ((header.flags & kRankLeft) == 0) {
    Fail(*outcome, (header.flags & kAgentLost) != 0 ? Loss::kAgent : Loss::kRank, now);
    return;
  }
  // header.op is the rank that closed its session in peace.
  const Rank rank(static_cast<std::uint32_t>(header.op));
  const auto& ranks = epoch_.members[header.sender].ranks;
  if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    return;
  }
  departed_.insert(rank);
  departure_reasons_[rank] = outcome->text;
  std::vector<OpKey> keys;
  for (const auto& [key, op] : ops_) {
    keys.push_back(key);
  }
  for (const OpKey& key : keys) {
    FailDeparted(key, now);
  }
}

}  // namespace maypole::agent
