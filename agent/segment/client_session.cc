#include "agent/segment/client_session.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/segment/handshake_reader.h"
#include "agent/segment/sealed_memory.h"
#include "agent/segment/slot_reader.h"
#include "proto/segment_layout.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

constexpr int kPacketsPerPoll = 16;
constexpr int kSlotsPerPoll = 64;
constexpr std::uint64_t kIdleDoorbellsMax = 4096;

// Never blocks, raises no signal. False if the client did not take it.
bool SendPacket(int socket, const void* message, std::size_t bytes, std::span<const int> fds) {
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  iovec data{const_cast<void*>(message), bytes};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
}

HelloReply MakeHelloReply(const std::string& version, const Outcome& outcome) {
  auto reply = MakeMessage<HelloReply>(MessageKind::kHelloReply, kClientProtocol);
  StoreText(reply.version, version);
  reply.code = static_cast<std::uint32_t>(outcome.code);
  reply.text_bytes = static_cast<std::uint32_t>(StoreText(reply.text, outcome.text));
  return reply;
}

AllocateReply MakeAllocateReply(const Outcome& outcome) {
  auto reply = MakeMessage<AllocateReply>(MessageKind::kAllocateReply, kClientProtocol);
  reply.code = static_cast<std::uint32_t>(outcome.code);
  reply.text_bytes = static_cast<std::uint32_t>(StoreText(reply.text, outcome.text));
  return reply;
}

}  // namespace

ClientSession::~ClientSession() {
  context_.segment_bytes -= segment_bytes_counted_;
  context_.segments -= segments_counted_;
}

void ClientSession::TurnAway(int socket, const std::string& version, const Outcome& outcome) {
  const HelloReply reply = MakeHelloReply(version, outcome);
  SendPacket(socket, &reply, sizeof(reply), {});
}

bool ClientSession::ReadSocket() {
  // One byte more than any message, so that a longer packet is seen to be longer. Descriptors that
  // come along are dropped by the kernel, since no room is given for them.
  std::array<std::byte, kMessageBytesMax + 1> packet;
  for (int i = 0; i < kPacketsPerPoll && socket_.valid(); ++i) {
    const ssize_t bytes = ::recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (bytes > 0) {
      OnPacket(std::span(packet).first(static_cast<std::size_t>(bytes)));
    } else if (bytes == 0 || (errno != EAGAIN && errno != EINTR)) {
      Leave(true,
            "its process ended without closing its session (pid " + std::to_string(pid_) + ")");
    } else {
      return i > 0;
    }
  }
  return true;
}

void ClientSession::OnPacket(std::span<const std::byte> packet) {
  if (phase_ == Phase::kAwaitHello) {
    OnHello(packet);
  } else {
    std::visit([this](const auto& request) { On(request); }, ReadRequest(packet));
  }
}

void ClientSession::OnHello(std::span<const std::byte> packet) {
  auto read = ReadHello(packet, context_.version);
  if (const auto* refusal = std::get_if<Outcome>(&read)) {
    TurnAway(socket_.get(), context_.version, *refusal);
    Leave(false, refusal->text);
    return;
  }
  auto& hello = std::get<ClientHello>(read);
  hello.session = id_;
  pid_ = hello.pid;
  phase_ = Phase::kAwaitAnswer;
  deadline_ = kNever;
  context_.events.push_back(std::move(hello));
}

void ClientSession::On(const AllocateRequest& request) {
  if (!ring_) {
    return On(Outcome{
        ErrorCode::kInvalidArgument, "memory was asked for before the session was admitted", ""});
  }
  std::uint32_t number = 0;
  UniqueFd fd;
  const Outcome outcome = context_.segments < context_.segments_max
                              ? segments_.Add(request.bytes, number, fd)
                              : AgentIsFull();
  AllocateReply reply = MakeAllocateReply(outcome);
  reply.segment = number;
  reply.bytes = outcome.ok() ? request.bytes : 0;
  CountSegments();
  const std::array fds = {fd.get()};
  Send(&reply, sizeof(reply), std::span(fds).first(outcome.ok() ? 1 : 0));
}

void ClientSession::On(const FreeRequest& request) {
  segments_.Remove(request.segment);
  CountSegments();
}

void ClientSession::On(const ResultRequest& request) {
  std::uint64_t bytes = 0;
  const UniqueFd fd(phase_ == Phase::kReady && context_.open_result
                        ? context_.open_result(job_, request.segment, bytes)
                        : -1);
  AllocateReply reply = MakeAllocateReply(
      fd.valid() ? Outcome{}
                 : Outcome{ErrorCode::kInvalidArgument,
                           "the job has no result segment " + std::to_string(request.segment),
                           ""});
  reply.segment = request.segment;
  reply.bytes = bytes;
  const std::array fds = {fd.get()};
  Send(&reply, sizeof(reply), std::span(fds).first(fd.valid() ? 1 : 0));
}

void ClientSession::On(const StatsRequest&) {
  auto reply = MakeMessage<StatsReply>(MessageKind::kStatsReply, kClientProtocol);
  if (context_.fill_stats) {
    context_.fill_stats(reply);
  }
  Send(&reply, sizeof(reply), {});
}

void ClientSession::On(const Goodbye&) {
  Leave(false, "it closed its session");
}

void ClientSession::On(const Outcome& broken) {
  EndFor(broken);
}

void ClientSession::EndFor(Outcome outcome) {
  outcome.text = "the agent ended this session: " + outcome.text;
  if (phase_ == Phase::kAwaitAnswer) {
    TurnAway(socket_.get(), context_.version, outcome);
  } else {
    Fail(outcome);
  }
  Leave(true, outcome.text);
}

void ClientSession::Leave(bool died, const std::string& reason) {
  const Phase before = phase_;
  if (before == Phase::kGone || before == Phase::kOver) {
    return;
  }
  CloseDescriptors();
  phase_ = before == Phase::kReady ? Phase::kGone : Phase::kOver;
  deadline_ = kNever;
  if (before != Phase::kAwaitHello) {
    context_.events.push_back(ClientGone{id_, died, reason});
  }
}

void ClientSession::CloseDescriptors() {
  socket_.Reset();
  doorbell_.Reset();
}

void ClientSession::Send(const void* message, std::size_t bytes, std::span<const int> fds) {
  if (SendPacket(socket_.get(), message, bytes, fds)) {
    return;
  }
  if (errno == EAGAIN) {
    EndFor({ErrorCode::kResourceExhausted, "it does not read its socket", ""});
  }
  // Otherwise the client is gone, which the next read tells.
}

void ClientSession::CountSegments() {
  context_.segment_bytes += segments_.bytes() - segment_bytes_counted_;
  segment_bytes_counted_ = segments_.bytes();
  context_.segments += segments_.count() - segments_counted_;
  segments_counted_ = segments_.count();
}

Outcome ClientSession::AgentIsFull() const {
  return {ErrorCode::kResourceExhausted,
          "the agent has " + std::to_string(context_.segments) +
              " segments of its clients, which is its limit; " + context_.largest_holder(),
          ""};
}

Outcome ClientSession::MakeControlSegment(UniqueFd& control) {
  auto memory = CreateSealedMemory("maypole-control", kControlBytes);
  doorbell_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!memory.ok() || !doorbell_.valid()) {
    return {ErrorCode::kResourceExhausted,
            memory.ok() ? std::string("eventfd: ") + std::strerror(errno)
                        : std::string(memory.status().message()),
            ""};
  }
  control = std::move(memory->fd);
  control_memory_ = std::move(memory->region);
  ring_.emplace(*reinterpret_cast<ControlSegment*>(control_memory_.data()));
  slot_segments_.assign(kSlotCount, {});
  return {};
}

void ClientSession::Answer(const Outcome& outcome) {
  if (!outcome.ok() && phase_ == Phase::kAwaitAnswer) {
    TurnAway(socket_.get(), context_.version, outcome);
    CloseDescriptors();
    phase_ = Phase::kOver;
  }
  if (phase_ != Phase::kAwaitAnswer) {
    return;
  }
  UniqueFd control;
  if (Outcome made = MakeControlSegment(control); !made.ok()) {
    TurnAway(socket_.get(), context_.version, made);
    Leave(true, made.text);
    return;
  }
  phase_ = Phase::kAwaitReady;
  const HelloReply reply = MakeHelloReply(context_.version, outcome);
  const std::array fds = {control.get(), doorbell_.get()};
  Send(&reply, sizeof(reply), fds);
}

void ClientSession::Ready(const SessionReady& ready) {
  if (phase_ != Phase::kAwaitReady) {
    return;
  }
  auto message = MakeMessage<maypole::SessionReady>(MessageKind::kSessionReady, kClientProtocol);
  message.code = static_cast<std::uint32_t>(ready.outcome.code);
  message.text_bytes = static_cast<std::uint32_t>(StoreText(message.text, ready.outcome.text));
  message.epoch = ready.epoch.value();
  message.local_rank = ready.local_rank;
  message.local_world_size = ready.local_world_size;
  message.nodes = ready.nodes;
  message.default_timeout_ns = ready.default_timeout.count();
  message.lease_ns = ready.lease.count();
  message.culprit_bytes =
      static_cast<std::uint32_t>(StoreText(message.culprits, ready.outcome.culprits));
  job_ = ready.token;
  phase_ = ready.outcome.ok() ? Phase::kReady : Phase::kRefused;
  Send(&message, sizeof(message), {});
}

void ClientSession::OnDeadline(TimePoint now) {
  if (now >= deadline_) {
    const Outcome late = {ErrorCode::kTimeout, "no hello came in time", ""};
    TurnAway(socket_.get(), context_.version, late);
    Leave(false, late.text);
  }
}

void ClientSession::Fail(const Outcome& outcome) {
  // Before it is ready, a client looks at its socket only.
  if (phase_ == Phase::kAwaitAnswer) {
    Answer(outcome);
  } else if (phase_ == Phase::kAwaitReady) {
    SessionReady refusal;
    refusal.outcome = outcome;
    Ready(refusal);
  }
  if (ring_) {
    ring_->Fail(outcome);
  }
}

void ClientSession::Complete(const CompleteOp& done) {
  if (!ring_ || done.slot >= kSlotCount) {
    return;
  }
  for (const std::uint32_t segment : std::exchange(slot_segments_[done.slot], {})) {
    if (segment != 0) {
      segments_.OpEnded(segment);
      CountSegments();
    }
  }
  ring_->Complete(done.slot, done.outcome, done.result);
}

bool ClientSession::SetSleeping(bool is_sleeping) {
  if (phase_ != Phase::kReady) {
    return true;
  }
  if (!is_sleeping) {
    ring_->Disarm();
    return true;
  }
  ring_->Arm();
  return !ring_->HasEntries();
}

void ClientSession::Beat() {
  if (ring_) {
    ring_->Beat();
  }
}

void ClientSession::OnDoorbell() {
  ++doorbells_;
  if (ring_ && doorbells_ > ring_->entries_taken() + kIdleDoorbellsMax) {
    EndFor({ErrorCode::kInvalidArgument,
            "it rang " + std::to_string(doorbells_) + " times for " +
                std::to_string(ring_->entries_taken()) + " submissions",
            ""});
  }
}

bool ClientSession::TakeSlots() {
  if (phase_ != Phase::kReady) {
    return false;
  }
  int taken = 0;
  while (taken < kSlotsPerPoll) {
    const auto entry = ring_->Take();
    if (!entry) {
      break;
    }
    ++taken;
    TakeSlot(*entry);
  }
  if (!ring_->violation().empty()) {
    EndFor({ErrorCode::kInvalidArgument, ring_->violation(), ""});
    return true;
  }
  return taken > 0;
}

void ClientSession::TakeSlot(const SlotRing::Entry& entry) {
  if (entry.is_release) {
    context_.events.push_back(ResultReleased{id_, entry.slot});
    return;
  }
  auto read =
      ReadSlot(entry.request, [this](std::uint32_t segment) { return segments_.Find(segment); });
  if (const auto* refusal = std::get_if<Outcome>(&read)) {
    ring_->Complete(entry.slot, *refusal, {});
    return;
  }
  auto& submission = std::get<Submission>(read);
  submission.session = id_;
  submission.slot = entry.slot;
  if (submission.elements > 0) {
    const bool has_output = submission.output.address != nullptr;
    slot_segments_[entry.slot] = {entry.request.segment,
                                  has_output ? entry.request.output_segment : 0};
    for (const std::uint32_t segment : slot_segments_[entry.slot]) {
      if (segment != 0) {
        segments_.OpBegan(segment);
      }
    }
  }
  context_.events.push_back(std::move(submission));
}

}  // namespace maypole::agent
