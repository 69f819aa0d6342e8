#include "agent/engine/prober.h"

#include <algorithm>
#include <utility>

namespace maypole::agent {
namespace {

// The first train is said again until the other side, which hears of it from the coordinator too,
// answers.
constexpr Duration kRepeatAfter = std::chrono::milliseconds(50);
// Ends a probe with what there is; without bulk trains there is nothing.
constexpr Duration kLimit = std::chrono::milliseconds(500);
// For the first answer.
constexpr Duration kAnswerLimit = std::chrono::seconds(2);
constexpr std::size_t kAnsweringMax = 8;

FrameHeader HeaderOf(FrameKind kind, std::uint64_t id) {
  FrameHeader header;
  header.kind = kind;
  header.token = id;
  return header;
}

}  // namespace

Prober::~Prober() {
  if (scratch_.address != nullptr) {
    memory_.FreeScratch(scratch_);
  }
}

void Prober::OnRequest(const ProbeLink& request, TimePoint now) {
  const PeerId peer = peers_.Ensure(request.peer, request.peer.generation, now, actions_);
  if (!request.measures) {
    answering_.push_back({request.id, peer});
    if (answering_.size() > kAnsweringMax) {
      answering_.pop_front();
    }
    return;
  }
  if (probe_) {
    End(LinkMeasured::Result::kFailed);
  }
  if (watched_ != 0) {  // what the last one sent is still on its way
    actions_.emplace_back(
        TellCoordinator{LinkMeasured{.id = request.id, .result = LinkMeasured::Result::kBusy}});
    return;
  }
  probe_ = Probe{.id = request.id, .peer = peer, .began = now};
  if (peers_.Lost(peer)) {
    End(LinkMeasured::Result::kFailed);
    return;
  }
  SendTrain(now);
}

void Prober::SendTrain(TimePoint now) {
  const TrainKind& train = kTrains[probe_->kind];
  if (train.frame_bytes > 0 && scratch_.address == nullptr) {
    scratch_ = memory_.AllocateScratch(train.frame_bytes);
    if (scratch_.address == nullptr) {
      End(LinkMeasured::Result::kFailed);
      return;
    }
  }
  probe_->sent = now;
  probe_->next_tick = watched_ == 0 ? now + kRepeatAfter : kNever;
  FrameHeader header = HeaderOf(FrameKind::kProbe, probe_->id);
  header.op = probe_->kind;
  header.occurrence = (std::uint64_t{probe_->attempt} << 32) | probe_->repeat;
  header.payload_bytes = train.frame_bytes;
  for (header.ordinal = 0; header.ordinal < train.frames; ++header.ordinal) {
    SendFrame frame{.peer = probe_->peer, .header = header};
    if (train.frame_bytes > 0) {
      frame.payload = scratch_;
      frame.token = next_token_;
      next_token_ = next_token_ % (kTokensEnd - 1) + 1;
      ++sends_;
    }
    actions_.emplace_back(std::move(frame));
  }
}

void Prober::OnFrame(const FrameHeader& header, ArrivalId arrival, bool ops_live, TimePoint now) {
  if (header.payload_bytes > 0) {
    actions_.emplace_back(DropPayload{arrival});
  }
  if (header.kind == FrameKind::kProbe) {
    Answer(header, ops_live);
  } else {
    OnEcho(header, now);
  }
}

// The frames of a train are of one size, so its last one arrives last.
void Prober::Answer(const FrameHeader& header, bool ops_live) {
  const auto found = std::find_if(answering_.begin(), answering_.end(), [&](const Answering& a) {
    return a.id == header.token;
  });
  if (found == answering_.end() || header.op >= kTrains.size() ||
      header.ordinal + 1 != kTrains[header.op].frames) {
    return;
  }
  FrameHeader echo = HeaderOf(FrameKind::kProbeEcho, header.token);
  echo.flags = ops_live ? kProbeBusy : 0;
  echo.op = header.op;
  echo.occurrence = header.occurrence;
  peers_.SendControl(found->peer, echo, {}, actions_);
}

void Prober::OnEcho(const FrameHeader& header, TimePoint now) {
  if (!probe_ || header.token != probe_->id || header.op != probe_->kind ||
      header.occurrence != ((std::uint64_t{probe_->attempt} << 32) | probe_->repeat)) {
    return;  // of a train that was given up
  }
  if (watched_ == 0) {
    watched_ = probe_->peer;
    watched_since_ = now;
  }
  peers_.Heard(watched_, now);
  if ((header.flags & kProbeBusy) != 0) {
    End(LinkMeasured::Result::kBusy);
    return;
  }
  if (probe_->repeat > 0) {
    probe_->seconds[probe_->kind].push_back(
        std::chrono::duration<double>(now - probe_->sent).count());
  } else if (probe_->kind == 0) {
    probe_->began = now;  // until now the other side may not have been told
  }
  ++probe_->repeat;
  const bool is_late = now - probe_->began > kLimit && probe_->repeat > 1;
  if (probe_->repeat == kTrains[probe_->kind].repeats || is_late) {
    probe_->repeat = 0;
    ++probe_->kind;
  }
  if (probe_->kind == kTrains.size()) {
    End(LinkMeasured::Result::kOk);
  } else {
    SendTrain(now);
  }
}

void Prober::OnTick(TimePoint now) {
  if (!probe_ || now < probe_->next_tick) {
    return;
  }
  if (watched_ != 0) {
    probe_->next_tick = kNever;
  } else if (now - probe_->began > kAnswerLimit) {
    End(LinkMeasured::Result::kFailed);
  } else {
    ++probe_->attempt;
    SendTrain(now);
  }
}

void Prober::OnSendDone(TransferToken token) {
  if (token > 0 && token < kTokensEnd) {
    --sends_;
    Rest();
  }
}

void Prober::AddSilentPeer(TimePoint now, std::set<PeerId>& silent) const {
  if (watched_ != 0 &&
      peers_.Expired(watched_, std::max(watched_since_, peers_.LastHeard(watched_)), now)) {
    silent.insert(watched_);
  }
}

void Prober::OnPeerLost(PeerId peer) {
  if (probe_ && probe_->peer == peer) {
    End(LinkMeasured::Result::kFailed);
  }
}

void Prober::OnOpsLive() {
  if (probe_) {
    End(LinkMeasured::Result::kBusy);
  }
}

void Prober::End(LinkMeasured::Result result) {
  const Probe probe = *std::exchange(probe_, std::nullopt);
  LinkMeasured measured{.id = probe.id, .result = result, .link = {}, .samples = 0};
  if (result == LinkMeasured::Result::kOk) {
    if (const auto link = FitLink(probe.seconds)) {
      measured.link = *link;
    } else {
      measured.result = LinkMeasured::Result::kFailed;
    }
    for (const auto& seconds : probe.seconds) {
      measured.samples += static_cast<std::uint32_t>(seconds.size());
    }
  }
  actions_.emplace_back(TellCoordinator{measured});
  Rest();
}

void Prober::Rest() {
  if (probe_ || sends_ > 0) {
    return;
  }
  if (scratch_.address != nullptr) {
    memory_.FreeScratch(std::exchange(scratch_, {}));
  }
  watched_ = 0;
}

}  // namespace maypole::agent
