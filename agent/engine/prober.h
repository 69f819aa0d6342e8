// Measures the link to another agent, one at a time, when the coordinator asks for it (its survey
// says who with whom and when). Pure: frames out by actions, frames and time in.
//
// The measuring side sends trains (link_fit.h) one after the other; the other side answers.
// Bounded: some 8 MiB and kLimit; a train at a time, so at most a megabyte is on its way when it
// ends early. A side that falls silent after its first answer is lost by its lease, like any peer.
// None while an op is in flight on either side: it ends with kBusy as soon as one is, and the
// coordinator asks again later.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "agent/engine/events.h"
#include "agent/engine/execution.h"
#include "agent/engine/link_fit.h"
#include "agent/engine/peer_table.h"
#include "agent/memory/memory.h"

namespace maypole::agent {

class Prober {
 public:
  // Tokens of sends: below those of executions, and none is 0.
  static constexpr TransferToken kTokensEnd = TransferToken{1} << Execution::kTokenBits;

  Prober(PeerTable& peers, Memory& memory, std::vector<Action>& actions)
      : peers_(peers), memory_(memory), actions_(actions) {}

  ~Prober();

  void OnRequest(const ProbeLink& request, TimePoint now);
  // kProbe or kProbeEcho. `ops_live`: an op is in flight here.
  void OnFrame(const FrameHeader& header, ArrivalId arrival, bool ops_live, TimePoint now);
  void OnSendDone(TransferToken token);
  void OnPeerLost(PeerId peer);
  // An op is in flight: what is being measured would be worth nothing.
  void OnOpsLive();
  void OnTick(TimePoint now);

  bool measuring() const { return probe_.has_value(); }

  // Measures, or waits for the end of what it sent: time matters to it.
  bool unsettled() const { return probe_ || watched_ != 0; }

  // The one whose lease ran out: it has answered, or holds what it was sent.
  void AddSilentPeer(TimePoint now, std::set<PeerId>& silent) const;

  TimePoint NextTick() const { return probe_ ? probe_->next_tick : kNever; }

 private:
  struct Probe {
    std::uint64_t id = 0;
    PeerId peer = 0;
    std::uint32_t kind = 0;    // of kTrains
    std::uint32_t repeat = 0;  // of that kind
    std::uint32_t attempt = 0;
    std::array<std::vector<double>, kTrains.size()> seconds;
    TimePoint began{};
    TimePoint sent{};
    TimePoint next_tick{};
  };

  // One that another agent measures.
  struct Answering {
    std::uint64_t id = 0;
    PeerId peer = 0;
  };

  void SendTrain(TimePoint now);
  void Answer(const FrameHeader& header, bool ops_live);
  void OnEcho(const FrameHeader& header, TimePoint now);
  void End(LinkMeasured::Result result);
  // Between probes, once nothing is on its way.
  void Rest();

  PeerTable& peers_;
  Memory& memory_;
  std::vector<Action>& actions_;
  std::optional<Probe> probe_;
  std::deque<Answering> answering_;  // newest last
  BufferView scratch_;               // payload of bulk trains; its bytes mean nothing
  std::uint32_t sends_ = 0;          // that still read it
  PeerId watched_ = 0;               // 0: none
  TimePoint watched_since_{};
  TransferToken next_token_ = 1;
};

}  // namespace maypole::agent
