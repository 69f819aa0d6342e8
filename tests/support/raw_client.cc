#include "tests/support/raw_client.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "common/error_code.h"
#include "proto/text.h"

namespace maypole::test {

RawClient::RawClient(const std::string& socket)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket.data(), socket.size());
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw std::runtime_error("cannot connect to " + socket);
  }
}

void RawClient::Send(const void* message, std::size_t bytes) const {
  (void)!send(socket_.get(), message, bytes, MSG_NOSIGNAL);
}

bool RawClient::ReceiveBytes(std::span<std::byte> message) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  iovec data{message.data(), message.size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC) <= 0) {
    return false;
  }
  if (const cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr) {
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      passed_.at(i).Reset(fd);
    }
  }
  return true;
}

Hello RawClient::HelloOf(const std::string& job, std::uint32_t rank, std::uint32_t world_size) {
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  StoreText(hello.version, "0.0.1");
  hello.rank = rank;
  hello.world_size = world_size;
  hello.pid = getpid();
  hello.job_bytes = StoreText(hello.job, job);
  return hello;
}

std::uint32_t RawClient::Join(const std::string& job, std::size_t bytes) {
  const Hello hello = HelloOf(job, 0, 1);
  Send(&hello, sizeof hello);
  const auto reply = Receive<HelloReply>();
  if (!reply || reply->code != 0) {
    throw std::runtime_error("the agent refused a raw client");
  }
  control_ = MappedRegion::Map(passed_[0].get(), kControlBytes, MapAccess::kReadWrite);
  doorbell_ = std::move(passed_[1]);
  channel_.emplace(*reinterpret_cast<ControlSegment*>(control_.data()), [this] {
    const std::uint64_t one = 1;
    (void)!write(doorbell_.get(), &one, sizeof one);
  });
  Receive<SessionReady>();
  auto request = MakeMessage<AllocateRequest>(MessageKind::kAllocateRequest, kClientProtocol);
  request.bytes = bytes;
  Send(&request, sizeof request);
  return Receive<AllocateReply>().value().segment;
}

std::string RawClient::Submit(const SlotRequest& request) {
  const std::uint32_t slot = channel_->Submit(request).value();
  while (!channel_->IsDone(slot)) {
    channel_->Sleep(slot, std::chrono::milliseconds(10));
  }
  const SlotOutcome& outcome = channel_->outcome(slot);
  std::string text = std::string(Name(static_cast<ErrorCode>(outcome.code))) + ": " +
                     std::string(LoadText(outcome.error, outcome.error_bytes));
  channel_->Give(slot, client::internal::SlotChannel::Release::kSlot);
  return text;
}

}  // namespace maypole::test
