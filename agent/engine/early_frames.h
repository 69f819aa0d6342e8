// What other agents say of jobs whose epoch has not come: the coordinator tells one member first.
//
// Pure. Frames are kept for a while, within bounds; of a job of which one was not kept that is
// remembered, as it cannot go well any more.
#pragma once

#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "agent/engine/events.h"
#include "agent/engine/recent_tokens.h"
#include "common/time.h"

namespace maypole::agent {

struct EarlyFrame {
  FrameHeader header;
  ArrivalId arrival = 0;
  std::span<const std::byte> body;
  TimePoint expires{};

  std::size_t bytes() const { return sizeof(*this) + body.size(); }
};

class EarlyFrames {
 public:
  explicit EarlyFrames(std::vector<Action>& actions) : actions_(actions) {}

  void Keep(const TransportEvent& arrived, TimePoint now);

  // Those of a job whose epoch has come, in order of arrival; they are the caller's now.
  std::vector<EarlyFrame> Take(JobToken token);

  // A frame of that job was not kept.
  bool HasForgotten(JobToken token) const { return forgotten_.Contains(token); }

  // "10.0 s, 16 MiB of all jobs"
  static std::string BoundsText();

  void Expire(TimePoint now);

  bool empty() const { return frames_.empty(); }

 private:
  void Forget(const EarlyFrame& frame);

  std::vector<Action>& actions_;
  std::deque<EarlyFrame> frames_;  // oldest first
  std::size_t bytes_ = 0;          // of them
  RecentTokens forgotten_;
};

}  // namespace maypole::agent
