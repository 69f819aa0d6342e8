// What an agent and the coordinator must agree on beside coordinator.proto.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace maypole {

// Raised by any change of meaning in coordinator.proto, in an epoch or in a frame between agents;
// the coordinator refuses an agent with another value.
inline constexpr std::uint32_t kControlProtocol = 3;

// Bounds that both sides check.
inline constexpr std::uint32_t kWorldSizeMax = 65536;
inline constexpr std::size_t kNodeNameBytesMax = 127;
inline constexpr std::size_t kControlTextBytesMax =
    2048;  // sentences for people; longer ones are cut

// Both sides ping an idle stream this often and give up this long after an unanswered ping, so that
// a host that vanished is noticed within 4 seconds. gRPC punishes pings that its other side has not
// been told to expect, hence one place for the two.
inline constexpr std::chrono::milliseconds kKeepaliveInterval{2000};
inline constexpr std::chrono::milliseconds kKeepaliveTimeout{2000};
inline constexpr std::chrono::milliseconds kPingIntervalAccepted{500};

}  // namespace maypole
