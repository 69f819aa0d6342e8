// Two cores with a line between them, one of which measures it.

#include "agent/engine/prober.h"

#include <deque>
#include <functional>
#include <map>

#include "tests/unit/agent/engine/core_fixture.h"

namespace maypole::agent {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr double kBytesPerSecond = 1e9;
constexpr Duration kLatency = microseconds(40);
constexpr Duration kMessage = microseconds(2);

class ProberTest : public CoreFixture {
 protected:
  ProberTest() {
    CoreOptions options;
    options.node = "b";
    options.host = "host-b";
    options.incarnation = 2;
    other_ = std::make_unique<AgentCore>(options, memory_);
  }

  ~ProberTest() override {
    core_.reset();
    other_.reset();
    EXPECT_EQ(memory_.scratch_in_use(), 0u);
  }

  void Ask(AgentCore& core, const std::string& peer, std::uint64_t incarnation, bool measures) {
    core.OnControl(ProbeLink{.id = 77,
                             .peer = {peer, incarnation, "", "address-of-" + peer, {}},
                             .measures = measures},
                   now_);
  }

  void AskBoth() {
    Ask(*other_, "a", 1, false);
    Ask(*core_, "b", 2, true);
  }

  // Carries frames between the two until nothing happens before `limit`.
  void RunUntil(TimePoint limit) {
    while (true) {
      Collect(*core_, *other_);
      Collect(*other_, *core_);
      TimePoint next = std::min(core_->NextTick(), other_->NextTick());
      if (!events_.empty()) {
        next = std::min(next, events_.begin()->first);
      }
      if (next > limit) {
        now_ = limit;
        return;
      }
      now_ = std::max(now_, next);
      if (!events_.empty() && events_.begin()->first <= now_) {
        const auto what = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        what();
      } else {
        for (AgentCore* core : {core_.get(), other_.get()}) {
          if (core->NextTick() <= now_) {
            core->OnTick(now_);
          }
        }
      }
    }
  }

  void Collect(AgentCore& from, AgentCore& to) {
    for (Action& action : from.TakeActions()) {
      if (const auto* send = std::get_if<SendFrame>(&action)) {
        ++frames_[send->header.kind];
        bytes_ += send->payload.bytes;
        Carry(from, to, *send);
      } else if (const auto* tell = std::get_if<TellCoordinator>(&action)) {
        if (const auto* measured = std::get_if<LinkMeasured>(&tell->message)) {
          measured_.push_back(*measured);
        }
      }
    }
  }

  void Carry(AgentCore& from, AgentCore& to, const SendFrame& send) {
    if (is_cut_) {
      return;
    }
    TimePoint& free = line_[&from];
    const auto payload = std::chrono::duration_cast<Duration>(
        std::chrono::duration<double>(static_cast<double>(send.payload.bytes) / kBytesPerSecond));
    free = std::max(free, now_) + kMessage + payload;
    events_.emplace(free, [this, &from, token = send.token] {
      if (token != 0) {
        from.OnTransport({.kind = TransportEvent::Kind::kSendDone, .token = token}, now_);
      }
    });
    events_.emplace(free + kLatency, [this, &to, header = send.header] {
      TransportEvent event;
      event.header = header;
      event.arrival = next_arrival_++;
      to.OnTransport(event, now_);
    });
  }

  std::unique_ptr<AgentCore> other_;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::map<AgentCore*, TimePoint> line_;
  std::map<FrameKind, std::size_t> frames_;
  std::uint64_t bytes_ = 0;
  bool is_cut_ = false;
  std::vector<LinkMeasured> measured_;
};

TEST_F(ProberTest, FindsWhatTheLinkCosts) {
  AskBoth();
  RunUntil(now_ + seconds(1));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].id, 77u);
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kOk);
  EXPECT_GE(measured_[0].samples, 20u);
  EXPECT_NEAR(measured_[0].link.latency_seconds, 41e-6, 2e-6);
  EXPECT_NEAR(measured_[0].link.message_seconds, 2e-6, 0.2e-6);
  EXPECT_NEAR(measured_[0].link.bytes_per_second / kBytesPerSecond, 1, 0.02);
  EXPECT_FALSE(core_->Busy());
  EXPECT_EQ(core_->NextTick(), kNever);
}

TEST_F(ProberTest, TheLoadIsBounded) {
  AskBoth();
  RunUntil(now_ + seconds(1));
  EXPECT_LE(bytes_, 8u << 20);
}

TEST_F(ProberTest, TheFirstTrainIsSaidAgainUntilTheOtherHasBeenTold) {
  Ask(*core_, "b", 2, true);
  RunUntil(now_ + milliseconds(220));
  EXPECT_THAT(measured_, IsEmpty());
  Ask(*other_, "a", 1, false);
  RunUntil(now_ + seconds(1));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kOk);
}

TEST_F(ProberTest, GivesUpIfNobodyAnswers) {
  Ask(*core_, "b", 2, true);
  RunUntil(now_ + seconds(3));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kFailed);
  EXPECT_FALSE(core_->Busy());
}

TEST_F(ProberTest, APeerThatFallsSilentIsLostByItsLease) {
  AskBoth();
  RunUntil(now_ + milliseconds(3));
  is_cut_ = true;
  events_.clear();
  RunUntil(now_ + seconds(5));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kFailed);
}

TEST_F(ProberTest, AnOpInFlightHereEndsItAtOnce) {
  FormJob();
  AskBoth();
  RunUntil(now_ + milliseconds(1));
  EXPECT_THAT(measured_, IsEmpty());
  Submit(Op(kRank0, "x"));
  RunUntil(now_ + milliseconds(50));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kBusy);
  const auto probes = frames_[FrameKind::kProbe];
  RunUntil(now_ + milliseconds(500));
  EXPECT_EQ(frames_[FrameKind::kProbe], probes) << "nothing more is sent";
}

TEST_F(ProberTest, AnOpInFlightThereEndsItToo) {
  FormJob();
  Submit(Op(kRank0, "x"));
  core_->TakeActions();
  Ask(*core_, "b", 2, false);
  Ask(*other_, "a", 1, true);
  RunUntil(now_ + milliseconds(50));
  ASSERT_THAT(measured_, SizeIs(1));
  EXPECT_EQ(measured_[0].result, LinkMeasured::Result::kBusy);
}

}  // namespace
}  // namespace maypole::agent
