// One agent core driven by hand: node "a" with ranks 0 and 1, the other members played by the test.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine/agent_core.h"
#include "agent/engine/matching.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/announce.h"
#include "tests/sim/sim_memory.h"
#include "tests/sim/workload.h"

namespace maypole::agent {

class CoreFixture : public testing::Test {
 protected:
  static constexpr JobToken kToken{4711};
  static constexpr SessionId kRank0 = 10;
  static constexpr SessionId kRank1 = 11;

  CoreFixture() { Restart({}); }

  void Restart(CoreOptions options) {
    options.node = "a";
    options.host = "host-a";
    options.incarnation = 1;
    core_ = std::make_unique<AgentCore>(options, memory_);
  }

  static EpochInfo MakeEpoch(bool with_b = true) {
    EpochInfo epoch{.job = "job",
                    .token = kToken,
                    .epoch = Epoch(1),
                    .world_size = with_b ? 4U : 2U,
                    .members = {{"a", 1, "host-a", "0", {Rank(0), Rank(1)}}},
                    .reason = {}};
    if (with_b) {
      epoch.members.push_back({"b", 2, "host-b", "1", {Rank(2), Rank(3)}});
    }
    return epoch;
  }

  void Hello(SessionId session, std::uint32_t rank, const std::string& job = "job") {
    core_->OnClient(ClientHello{session, job, Rank(rank), 4, 1000 + rank}, now_);
  }

  void FormJob(bool with_b = true) { FormJob(MakeEpoch(with_b)); }

  void FormJob(EpochInfo epoch) {
    core_->OnControl(CoordinatorLink{true, "attached"}, now_);
    Hello(kRank0, 0);
    Hello(kRank1, 1);
    core_->OnControl(std::move(epoch), now_);
    actions_ = core_->TakeActions();
  }

  // Of `elements` f32 in place; sums.
  Submission Op(SessionId session, const std::string& name, ElementCount elements = 8) {
    tensors_.push_back(std::make_unique<sim::Bytes>(elements * sizeof(float)));
    return {.session = session,
            .slot = next_slot_++,
            .name = name,
            .elements = elements,
            .tensor = tensors_.back()->view()};
  }

  void Submit(Submission submission) { core_->OnClient(std::move(submission), now_); }

  FrameHeader FromB(FrameKind kind, const std::string& name = "", std::uint64_t occurrence = 0) {
    FrameHeader header;
    header.kind = kind;
    header.token = kToken.value();
    header.epoch = 1;
    header.sender = sender_of_b_;
    header.op = HashName(name);
    header.occurrence = occurrence;
    return header;
  }

  void Arrive(FrameHeader header, const std::vector<std::byte>& body = {}) {
    header.payload_bytes = body.size();
    TransportEvent event;
    event.header = header;
    event.arrival = body.empty() ? 0 : next_arrival_++;
    bodies_.push_back(body);
    event.inline_payload = bodies_.back();
    core_->OnTransport(event, now_);
  }

  void AnnounceFromB(const std::string& name,
                     ElementCount elements = 8,
                     collective::Algorithm asked_for = collective::Algorithm::kAuto) {
    const Announce announce{
        .name = name,
        .algorithm = static_cast<std::uint8_t>(collective::Algorithm::kDirect),
        .slice_bytes = CoreOptions{}.slice_bytes,
        .groups = {{{.algorithm = static_cast<std::uint8_t>(asked_for), .elements = elements},
                    {Rank(2), Rank(3)}}}};
    Arrive(FromB(FrameKind::kAnnounce, name), EncodeAnnounce(announce));
  }

  // Runs the clock, with ticks when they are due.
  void Advance(Duration duration) {
    const TimePoint end = now_ + duration;
    while (core_->NextTick() <= end) {
      now_ = std::max(now_, core_->NextTick());
      core_->OnTick(now_);
    }
    now_ = end;
  }

  // The actions of one kind since the last call of Taken for any kind.
  template <typename T>
  std::vector<T> Taken() {
    for (Action& action : core_->TakeActions()) {
      actions_.push_back(std::move(action));
    }
    std::vector<T> found;
    for (Action& action : actions_) {
      if (T* wanted = std::get_if<T>(&action)) {
        found.push_back(*wanted);
      }
    }
    actions_.clear();
    return found;
  }

  std::vector<SendFrame> Frames(FrameKind kind) {
    std::vector<SendFrame> frames = Taken<SendFrame>();
    std::erase_if(frames, [&](const SendFrame& send) { return send.header.kind != kind; });
    return frames;
  }

  TimePoint now_{std::chrono::hours(5)};
  sim::Regions regions_;
  sim::SimMemory memory_{regions_};
  std::vector<std::unique_ptr<sim::Bytes>> tensors_;
  std::deque<std::vector<std::byte>> bodies_;
  std::vector<Action> actions_;
  std::uint32_t next_slot_ = 0;
  std::uint32_t sender_of_b_ = 1;
  ArrivalId next_arrival_ = 1;
  std::unique_ptr<AgentCore> core_;
};

}  // namespace maypole::agent
