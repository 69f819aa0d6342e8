#include "tests/support/transport_contract.h"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <set>
#include <thread>

namespace maypole::agent {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TransportContract);

using std::chrono::steady_clock;
using namespace std::chrono_literals;

std::vector<std::byte> ContractPayload(std::uint32_t ordinal, std::uint64_t bytes) {
  std::vector<std::byte> payload(bytes);
  std::uint32_t state = ordinal * 2654435761U + 1;
  for (std::byte& value : payload) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<std::byte>(state >> 24);
  }
  return payload;
}

TransferToken Station::Send(PeerId peer, std::uint32_t ordinal, std::uint64_t bytes) {
  const TransferToken token = next_token_++;
  std::vector<std::byte>& payload = buffers_[token] = ContractPayload(ordinal, bytes);
  FrameHeader header;
  header.kind = FrameKind::kData;
  header.ordinal = ordinal;
  header.token = 0x0123456789abcdef;
  header.op = ~0ULL;
  header.payload_bytes = bytes;
  transport_->Send(peer, header, {MemoryKind::kHost, payload.data(), bytes}, token);
  return token;
}

TransferToken Station::Receive(std::size_t index) {
  const TransportEvent& arrival = arrivals.at(index);
  const TransferToken token = next_token_++;
  std::vector<std::byte>& target = buffers_[token];
  target.resize(arrival.header.payload_bytes);
  transport_->Receive(arrival.arrival, {MemoryKind::kHost, target.data(), target.size()}, token);
  return token;
}

void Station::Drop(std::size_t index) {
  transport_->Drop(arrivals.at(index).arrival);
}

bool Station::Poll() {
  std::vector<TransportEvent> events;
  const bool happened = transport_->Poll(events);
  for (TransportEvent& event : events) {
    switch (event.kind) {
      case TransportEvent::Kind::kArrived:
        arrivals.push_back(std::move(event));
        break;
      case TransportEvent::Kind::kPeerLost:
        losses.push_back(std::move(event));
        break;
      case TransportEvent::Kind::kSendDone:
      case TransportEvent::Kind::kReceiveDone:
        EXPECT_EQ(buffers_.count(event.token), 1U) << "token " << event.token << " was never given";
        EXPECT_TRUE(outcomes_.emplace(event.token, event.ok).second)
            << "token " << event.token << " completed twice";
        break;
    }
  }
  return happened || !events.empty();
}

bool TransportContract::PollUntil(const std::vector<Station*>& stations,
                                  const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + 20s;
  while (!condition()) {
    for (Station* station : stations) {
      station->Poll();
    }
    if (steady_clock::now() > deadline) {
      return false;
    }
  }
  return true;
}

void TransportContract::Introduce(Station& left, Station& right) {
  ASSERT_TRUE(left.transport().Connect(1, right.transport().Address()).ok());
  ASSERT_TRUE(right.transport().Connect(1, left.transport().Address()).ok());
}

namespace {

constexpr std::uint64_t kEager = 256 << 10;  // the largest payload that is sent unasked, by default
constexpr std::uint64_t kLarge = 8 << 20;

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST_P(TransportContract, PayloadsOfAllSizesArriveBitExact) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  std::uint32_t ordinal = 0;
  for (const std::uint64_t bytes : {std::uint64_t{0},
                                    std::uint64_t{1},
                                    std::uint64_t{4096},
                                    kEager - 1,
                                    kEager,
                                    kEager + 1,
                                    kLarge}) {
    for (Station* from : {&left, &right}) {
      Station* to = from == &left ? &right : &left;
      SCOPED_TRACE(bytes);
      const std::size_t before = to->arrivals.size();
      const TransferToken sent = from->Send(1, ++ordinal, bytes);
      ASSERT_TRUE(PollUntil({&left, &right}, [&] { return to->arrivals.size() > before; }));
      const TransportEvent& arrival = to->arrivals.back();
      EXPECT_EQ(arrival.header.payload_bytes, bytes);
      EXPECT_EQ(arrival.header.ordinal, ordinal);
      EXPECT_EQ(arrival.header.token, 0x0123456789abcdefULL);
      EXPECT_EQ(arrival.header.op, ~0ULL);
      if (!arrival.inline_payload.empty()) {
        const auto expected = ContractPayload(ordinal, bytes);
        EXPECT_TRUE(std::ranges::equal(arrival.inline_payload, expected));
      }
      TransferToken fetched = 0;
      if (bytes > 0) {
        fetched = to->Receive(before);
      }
      ASSERT_TRUE(PollUntil({&left, &right}, [&] {
        return from->is_done(sent) && (bytes == 0 || to->is_done(fetched));
      }));
      EXPECT_TRUE(from->ok(sent));
      if (bytes > 0) {
        EXPECT_TRUE(to->ok(fetched));
        EXPECT_TRUE(to->received(fetched) == ContractPayload(ordinal, bytes));
      }
    }
  }
}

TEST_P(TransportContract, SmallPayloadsAreVisibleInTheirArrival) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  left.Send(1, 7, 4096);
  left.Send(1, 8, kLarge);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() == 2; }));
  for (const TransportEvent& arrival : right.arrivals) {
    EXPECT_EQ(arrival.inline_payload.size(), arrival.header.ordinal == 7 ? 4096U : 0U);
  }
  right.Drop(0);
  right.Drop(1);
}

TEST_P(TransportContract, SmallFramesOfOneConnectionKeepTheirOrder) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  constexpr std::uint32_t kFrames = 2000;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    left.Send(1, i, i % 3 == 0 ? 0 : 4 * i);
  }
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() == kFrames; }));
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(right.arrivals[i].header.ordinal, i);
    if (right.arrivals[i].header.payload_bytes > 0) {
      right.Drop(i);
    }
  }
  EXPECT_TRUE(PollUntil({&left, &right}, [&] { return left.in_flight() == 0; }));
}

TEST_P(TransportContract, ManyFramesInFlightBothWaysAllArriveOnce) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  constexpr std::uint32_t kFrames = 120;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    const std::uint64_t bytes = i % 4 == 0 ? 2 * kEager + i : 1 + 317 * i;
    left.Send(1, i, bytes);
    right.Send(1, i, bytes);
  }
  // Late and in reverse, as a receiver does whose memory was full.
  ASSERT_TRUE(PollUntil({&left, &right}, [&] {
    return left.arrivals.size() == kFrames && right.arrivals.size() == kFrames;
  }));
  for (Station* station : {&left, &right}) {
    std::map<TransferToken, std::uint32_t> expected;
    for (std::size_t i = kFrames; i-- > 0;) {
      expected[station->Receive(i)] = station->arrivals[i].header.ordinal;
    }
    ASSERT_TRUE(PollUntil({&left, &right}, [&] {
      return std::ranges::all_of(expected,
                                 [&](auto& entry) { return station->is_done(entry.first); });
    }));
    std::set<std::uint32_t> seen;
    for (const auto& [token, ordinal] : expected) {
      EXPECT_TRUE(station->ok(token));
      EXPECT_TRUE(station->received(token) ==
                  ContractPayload(ordinal, station->received(token).size()));
      seen.insert(ordinal);
    }
    EXPECT_EQ(seen.size(), kFrames);
  }
  EXPECT_TRUE(
      PollUntil({&left, &right}, [&] { return left.in_flight() + right.in_flight() == 0; }));
}

TEST_P(TransportContract, DroppedPayloadsReleaseTheirSender) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  std::uint32_t ordinal = 0;
  for (const std::uint64_t bytes : {std::uint64_t{1}, kEager, kEager + 1, kLarge}) {
    const TransferToken sent = left.Send(1, ordinal, bytes);
    ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() > ordinal; }));
    right.Drop(ordinal++);
    ASSERT_TRUE(PollUntil({&left, &right}, [&] { return left.is_done(sent); })) << bytes;
    EXPECT_TRUE(left.ok(sent)) << bytes;
  }
  EXPECT_TRUE(left.losses.empty());
  // The connection is as good as before.
  left.Send(1, 99, kLarge);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() > ordinal; }));
  const TransferToken fetched = right.Receive(ordinal);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.is_done(fetched); }));
  EXPECT_TRUE(right.received(fetched) == ContractPayload(99, kLarge));
}

TEST_P(TransportContract, EveryByteIsCountedOnBothSides) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{5}, kEager + 1}) {
    left.Send(1, 0, bytes);
    total += sizeof(FrameHeader) + bytes;
  }
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() == 3; }));
  for (std::size_t i = 0; i < 3; ++i) {
    if (right.arrivals[i].header.payload_bytes > 0) {
      right.Receive(i);
    }
  }
  ASSERT_TRUE(
      PollUntil({&left, &right}, [&] { return left.in_flight() + right.in_flight() == 0; }));
  EXPECT_EQ(left.transport().Counters().sent_bytes, total);
  EXPECT_EQ(left.transport().Counters().sent_frames, 3U);
  EXPECT_EQ(right.transport().Counters().received_bytes, total);
  EXPECT_EQ(right.transport().Counters().received_frames, 3U);
  EXPECT_EQ(left.transport().Counters().received_bytes, 0U);
}

TEST_P(TransportContract, AFrameOfAnotherVersionIsRefusedAndCounted) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{64}, kLarge}) {
    std::vector<std::byte> payload(bytes);
    FrameHeader header;
    header.version = kFrameVersion + 1;
    header.payload_bytes = bytes;
    left.transport().Send(1, header, {MemoryKind::kHost, payload.data(), bytes}, 1);
    std::vector<TransportEvent> events;
    const auto is_sent = [&] {
      left.transport().Poll(events);
      return std::ranges::any_of(
          events, [](auto& event) { return event.kind == TransportEvent::Kind::kSendDone; });
    };
    ASSERT_TRUE(PollUntil({&right}, is_sent)) << bytes;
  }
  ASSERT_TRUE(
      PollUntil({&left, &right}, [&] { return right.transport().Counters().refused_frames == 3; }));
  EXPECT_TRUE(right.arrivals.empty());
  left.Send(1, 1, 10);
  EXPECT_TRUE(PollUntil({&left, &right}, [&] { return right.arrivals.size() == 1; }));
  right.Drop(0);
}

TEST_P(TransportContract, ASendToAnUnknownPeerFails) {
  Station alone(GetParam());
  const TransferToken token = alone.Send(42, 0, 100);
  EXPECT_FALSE(alone.transport().Arm());  // the completion is pending
  ASSERT_TRUE(PollUntil({&alone}, [&] { return alone.is_done(token); }));
  EXPECT_FALSE(alone.ok(token));
  alone.transport().Disconnect(42);
}

TEST_P(TransportContract, BadAddressesAreRefused) {
  Station station(GetParam());
  Station other(GetParam());
  const std::string good = other.transport().Address();
  std::vector<std::string> bad = {"", "x", "10.0.0.1:7710", std::string(200, '\xff'), good + "x"};
  for (std::size_t i = 0; i < good.size(); ++i) {
    bad.push_back(good.substr(0, i));
    bad.push_back(good);
    bad.back()[i] = static_cast<char>(bad.back()[i] ^ 0x10);
  }
  for (const std::string& address : bad) {
    EXPECT_EQ(station.transport().Connect(1, address).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(station.transport().Connect(1, good).ok());
}

TEST_P(TransportContract, DisconnectCompletesEverythingWithoutALoss) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  for (std::uint32_t i = 0; i < 10; ++i) {
    left.Send(1, i, kLarge);
    right.Send(1, i, kLarge);
    left.Send(1, i, 1000);
  }
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return left.arrivals.size() >= 4; }));
  for (std::size_t i = 0; i < 4; ++i) {
    left.Receive(i);
  }
  left.transport().Disconnect(1);
  ASSERT_TRUE(PollUntil({&left}, [&] { return left.in_flight() == 0; }));
  EXPECT_TRUE(left.losses.empty());
  // What had arrived and was not fetched can be received (in vain) or dropped.
  for (std::size_t i = 4; i < left.arrivals.size(); ++i) {
    if (i % 2 == 0) {
      left.Receive(i);
    } else {
      left.Drop(i);
    }
  }
  const TransferToken refused = left.Send(1, 0, 10);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return left.in_flight() == 0; }));
  EXPECT_FALSE(left.ok(refused));
  // The other side is not told. Its own Disconnect ends what it has in flight.
  right.transport().Disconnect(1);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return right.in_flight() == 0; }));
  EXPECT_TRUE(left.losses.empty());
  EXPECT_TRUE(right.losses.empty());
}

// The ends of connections between the same two belong together in the order in which each side made
// them.
TEST_P(TransportContract, ClosingOneOfTwoConnectionsLeavesTheOther) {
  Station left(GetParam());
  Station right(GetParam());
  const auto all_pass = [&](PeerId first) {
    const std::size_t count = 3 - first;
    left.arrivals.clear();
    right.arrivals.clear();
    for (PeerId peer = first; peer <= 2; ++peer) {
      left.Send(peer, 1, kLarge);
      right.Send(peer, 2, kLarge);
    }
    EXPECT_TRUE(PollUntil({&left, &right}, [&] {
      return left.arrivals.size() == count && right.arrivals.size() == count;
    }));
    std::vector<TransferToken> taken[2];
    for (std::size_t i = 0; i < count; ++i) {
      taken[0].push_back(left.Receive(i));
      taken[1].push_back(right.Receive(i));
    }
    EXPECT_TRUE(
        PollUntil({&left, &right}, [&] { return left.in_flight() + right.in_flight() == 0; }));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(left.ok(taken[0][i]) && right.ok(taken[1][i]));
    }
  };
  for (PeerId peer = 1; peer <= 2; ++peer) {
    ASSERT_TRUE(left.transport().Connect(peer, right.transport().Address()).ok());
    ASSERT_TRUE(right.transport().Connect(peer, left.transport().Address()).ok());
  }
  all_pass(1);
  left.transport().Disconnect(1);
  all_pass(2);
  right.transport().Disconnect(1);
  all_pass(2);
  EXPECT_TRUE(left.losses.empty());
  EXPECT_TRUE(right.losses.empty());
}

TEST_P(TransportContract, ALostPeerIsReportedOnceAndItsArrivalsEnd) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  left.Send(1, 0, kLarge);
  right.Send(1, 1, kLarge);
  right.Send(1, 2, kLarge);
  right.Send(1, 3, 100);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] { return left.arrivals.size() == 3; }));
  right.Destroy();
  ASSERT_TRUE(PollUntil({&left}, [&] { return left.losses.size() == 1 && left.in_flight() == 0; }));
  std::vector<std::pair<TransferToken, bool>> expected;  // what was here already is not lost
  for (std::size_t i = 0; i < 3; ++i) {
    if (left.arrivals[i].header.ordinal == 2) {
      left.Drop(i);
    } else {
      expected.emplace_back(left.Receive(i), left.arrivals[i].header.ordinal == 3);
    }
  }
  ASSERT_TRUE(PollUntil({&left}, [&] { return left.in_flight() == 0; }));
  for (const auto& [token, ok] : expected) {
    EXPECT_EQ(left.ok(token), ok);
  }
  EXPECT_EQ(left.losses.size(), 1U);
}

TEST_P(TransportContract, ANewIncarnationCanBeReachedAfterALoss) {
  Station left(GetParam());
  for (PeerId peer = 1; peer <= 5; ++peer) {
    Station right(GetParam());
    ASSERT_TRUE(left.transport().Connect(peer, right.transport().Address()).ok());
    ASSERT_TRUE(right.transport().Connect(1, left.transport().Address()).ok());
    const std::size_t before = left.arrivals.size();
    left.Send(peer, 0, kLarge);
    right.Send(1, 0, 3 * kEager);
    ASSERT_TRUE(PollUntil({&left, &right}, [&] {
      return left.arrivals.size() > before && right.arrivals.size() == 1;
    }));
    const TransferToken fetched = left.Receive(before);
    right.Receive(0);
    ASSERT_TRUE(
        PollUntil({&left, &right}, [&] { return left.in_flight() + right.in_flight() == 0; }));
    EXPECT_TRUE(left.ok(fetched));
    right.Destroy();
    ASSERT_TRUE(PollUntil({&left}, [&] { return left.losses.size() == peer; }));
    EXPECT_EQ(left.losses.back().peer, peer);
  }
}

// Two threads, each asleep until the other's frame wakes it: a wake-up lost once fails the test.
TEST_P(TransportContract, SleepersWakeForEveryFrame) {
  constexpr std::uint32_t kTrips = 1000;
  std::promise<std::string> addresses[2];
  std::shared_future<std::string> known[2] = {addresses[0].get_future().share(),
                                              addresses[1].get_future().share()};
  const auto play = [&](int self) {
    Station station(GetParam());
    addresses[self].set_value(station.transport().Address());
    ASSERT_TRUE(station.transport().Connect(1, known[1 - self].get()).ok());
    if (self == 0) {
      station.Send(1, 0, 8);
    }
    while (station.arrivals.size() < kTrips || station.in_flight() > 0) {
      const std::size_t before = station.arrivals.size();
      if (!station.Poll() && station.transport().Arm()) {
        pollfd wait = {station.transport().EventFd(), POLLIN, 0};
        ASSERT_EQ(::poll(&wait, 1, 10000), 1) << "asleep with " << before << " of " << kTrips;
      }
      for (std::size_t i = before; i < station.arrivals.size(); ++i) {
        station.Drop(i);
        if (self == 1 || i + 1 < kTrips) {
          station.Send(1, 0, i % 50 == 0 ? kEager : 8);
        }
      }
    }
    if (self == 0) {
      while (station.losses.empty()) {  // the other one leaves first, after its last frame was read
        station.Poll();
      }
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
}

TEST_P(TransportContract, AnIdleConnectionLetsItsOwnerSleep) {
  Station left(GetParam());
  Station right(GetParam());
  Introduce(left, right);
  left.Send(1, 0, 100);
  right.Send(1, 0, 100);
  ASSERT_TRUE(PollUntil({&left, &right}, [&] {
    return left.arrivals.size() == 1 && right.arrivals.size() == 1 && left.in_flight() == 0;
  }));
  // Connection set-up may still have something to say; then there has to be silence.
  int wakeups = 0;
  const auto end = steady_clock::now() + 500ms;
  while (steady_clock::now() < end) {
    for (Station* station : {&left, &right}) {
      while (station->Poll() || !station->transport().Arm()) {
        ++wakeups;
      }
    }
    pollfd waits[] = {{left.transport().EventFd(), POLLIN, 0},
                      {right.transport().EventFd(), POLLIN, 0}};
    ::poll(waits, 2, 100);
  }
  EXPECT_LT(wakeups, 20);
  left.Drop(0);
  right.Drop(0);
}

TEST_P(TransportContract, DescriptorsReturnWithConnectionsAndTransports) {
  const auto one_life = [&](Station& survivor, PeerId peer) {
    Station other(GetParam());
    ASSERT_TRUE(survivor.transport().Connect(peer, other.transport().Address()).ok());
    ASSERT_TRUE(other.transport().Connect(1, survivor.transport().Address()).ok());
    const std::size_t before = survivor.arrivals.size();
    other.Send(1, 0, 10);
    survivor.Send(peer, 0, kLarge);
    ASSERT_TRUE(PollUntil({&survivor, &other}, [&] { return survivor.arrivals.size() > before; }));
    survivor.Drop(before);
    survivor.transport().Disconnect(peer);
  };
  { Station warm_up(GetParam()); }
  const std::size_t at_start = OpenDescriptors();
  {
    Station survivor(GetParam());
    one_life(survivor, 1);
    ASSERT_TRUE(PollUntil({&survivor}, [&] { return survivor.in_flight() == 0; }));
    const std::size_t after_one = OpenDescriptors();
    for (PeerId peer = 2; peer < 10; ++peer) {
      one_life(survivor, peer);
    }
    ASSERT_TRUE(PollUntil({&survivor}, [&] { return survivor.in_flight() == 0; }));
    EXPECT_LE(OpenDescriptors(), after_one);
  }
  EXPECT_EQ(OpenDescriptors(), at_start);
}

}  // namespace
}  // namespace maypole::agent
