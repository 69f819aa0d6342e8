// A client without the client library: speaks the socket and the slots of an agent by hand, so that
// it can say what no client would.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/src/slot_channel.h"
#include "common/mapped_region.h"
#include "common/unique_fd.h"
#include "proto/handshake.h"

namespace maypole::test {

class RawClient {
 public:
  // Connects; says nothing yet.
  explicit RawClient(const std::string& socket);

  void Send(const void* message, std::size_t bytes) const;

  // The next message; empty when the agent has closed.
  template <typename Message>
  std::optional<Message> Receive() {
    Message message;
    return ReceiveBytes(std::as_writable_bytes(std::span(&message, 1))) ? std::optional(message)
                                                                        : std::nullopt;
  }

  static Hello HelloOf(const std::string& job, std::uint32_t rank, std::uint32_t world_size);

  // A rank alone in its job, with one data segment of `bytes`, whose number is returned.
  std::uint32_t Join(const std::string& job, std::size_t bytes);

  // After Join: the outcome of a slot with this request.
  std::string Submit(const SlotRequest& request);

 private:
  bool ReceiveBytes(std::span<std::byte> message);

  UniqueFd socket_;
  std::array<UniqueFd, 2> passed_;  // with the last message
  UniqueFd doorbell_;
  MappedRegion control_;
  std::optional<client::internal::SlotChannel> channel_;
};

}  // namespace maypole::test
