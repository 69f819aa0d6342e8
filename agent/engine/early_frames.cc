#include "agent/engine/early_frames.h"

#include <algorithm>
#include <iterator>

namespace maypole::agent {
namespace {

constexpr Duration kLife = std::chrono::seconds(10);
constexpr std::size_t kBytesMax = 16 << 20;

}  // namespace

std::string EarlyFrames::BoundsText() {
  return SecondsText(kLife) + ", " + std::to_string(kBytesMax >> 20) + " MiB of all jobs";
}

void EarlyFrames::Keep(const TransportEvent& arrived, TimePoint now) {
  const EarlyFrame frame{arrived.header, arrived.arrival, arrived.inline_payload, now + kLife};
  if (bytes_ + frame.bytes() > kBytesMax) {
    Forget(frame);
    return;
  }
  bytes_ += frame.bytes();
  frames_.push_back(frame);
}

std::vector<EarlyFrame> EarlyFrames::Take(JobToken token) {
  const auto others = std::stable_partition(frames_.begin(), frames_.end(), [&](const auto& frame) {
    return frame.header.token != token.value();
  });
  std::vector<EarlyFrame> taken(others, frames_.end());
  frames_.erase(others, frames_.end());
  for (const EarlyFrame& frame : taken) {
    bytes_ -= frame.bytes();
  }
  return taken;
}

void EarlyFrames::Expire(TimePoint now) {
  while (!frames_.empty() && frames_.front().expires <= now) {
    Forget(frames_.front());
    bytes_ -= frames_.front().bytes();
    frames_.pop_front();
  }
}

void EarlyFrames::Forget(const EarlyFrame& frame) {
  forgotten_.Add(JobToken(frame.header.token));
  actions_.emplace_back(DropPayload{frame.arrival});
}

}  // namespace maypole::agent
