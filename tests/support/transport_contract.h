// What every transport adapter promises (agent/transport/transport.h), as one suite for all of
// them. An adapter's test lists tests/support/transport_contract.cc among its sources and says
//
//   INSTANTIATE_TEST_SUITE_P(Ucx, TransportContract, testing::Values(TransportFactory{"ucx",
//   MakeIt}));
//
// and likewise for TransportDeath, if its peers can be other processes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent/transport/transport.h"

namespace maypole::agent {

struct TransportFactory {
  std::string name;
  // A new transport that others of this factory can reach; called on the thread that uses it.
  std::function<std::unique_ptr<Transport>()> make;

  friend std::ostream& operator<<(std::ostream& out, const TransportFactory& factory) {
    return out << factory.name;
  }
};

// A transport, and what its owner has seen of it.
class Station {
 public:
  explicit Station(const TransportFactory& factory) : transport_(factory.make()) {}

  Transport& transport() { return *transport_; }

  void Destroy() { transport_.reset(); }

  // Sends `bytes` of `fill`ed payload, which the station keeps. Returns the token.
  TransferToken Send(PeerId peer, std::uint32_t ordinal, std::uint64_t bytes);
  // Fetches the payload of arrivals[index].
  TransferToken Receive(std::size_t index);
  void Drop(std::size_t index);

  // One Poll. Tokens that complete twice, or that nobody used, fail the test.
  bool Poll();

  std::size_t done() const { return outcomes_.size(); }

  std::size_t in_flight() const { return next_token_ - 1 - outcomes_.size(); }

  // ok of a completed token.
  bool ok(TransferToken token) const { return outcomes_.at(token); }

  bool is_done(TransferToken token) const { return outcomes_.count(token) > 0; }

  std::vector<std::byte>& received(TransferToken token) { return buffers_.at(token); }

  std::vector<TransportEvent> arrivals;
  std::vector<TransportEvent> losses;

 private:
  std::unique_ptr<Transport> transport_;
  std::map<TransferToken, std::vector<std::byte>> buffers_;
  std::map<TransferToken, bool> outcomes_;
  TransferToken next_token_ = 1;
};

// The payload that a frame of this ordinal and size carries in these tests.
std::vector<std::byte> ContractPayload(std::uint32_t ordinal, std::uint64_t bytes);

class TransportContract : public testing::TestWithParam<TransportFactory> {
 protected:
  // Polls all `stations` until `condition` holds; false after 20 s.
  static bool PollUntil(const std::vector<Station*>& stations,
                        const std::function<bool()>& condition);
  // Each is the other's peer 1.
  static void Introduce(Station& left, Station& right);
};

// Peers that are processes of their own, so that they can be killed.
class TransportDeath : public TransportContract {};

}  // namespace maypole::agent
