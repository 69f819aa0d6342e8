#include "client/src/session.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/src/failure.h"
#include "client/src/version.h"
#include "proto/text.h"

namespace maypole::client::internal {
namespace {

constexpr Duration kReplyTimeout = std::chrono::seconds(5);
// How often the death of the agent is looked for while nothing happens.
constexpr Duration kLookInterval = std::chrono::milliseconds(100);
// Before the agent is taken to be stopped.
constexpr int kLooksPerLeaseMin = 4;

TimePoint Now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

// The kernel drops what the agent passed if this process has no descriptor left.
Outcome CheckTaken(const UniqueFd& fd, const AgentSocket& agent) {
  return fd.valid() ? Outcome{}
                    : Failure(ErrorCode::kResourceExhausted,
                              "this process could not take a descriptor that " + agent.name() +
                                  " passed: raise its limit of open files (ulimit -n)");
}

// Maps what the agent passed; not inherited by children, whose writes would reach the parent's
// memory.
Outcome MapPassed(const UniqueFd& fd,
                  const AgentSocket& agent,
                  std::size_t bytes,
                  MapAccess access,
                  MappedRegion& region) {
  if (Outcome taken = CheckTaken(fd, agent); !taken.ok()) {
    return taken;
  }

  struct stat status {};

  if (::fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) < bytes ||
      bytes == 0) {
    return Failure(ErrorCode::kInternal,
                   agent.name() + " passed no segment of " + std::to_string(bytes) + " bytes");
  }
  region = MappedRegion::Map(fd.get(), bytes, access);
  if (!region.valid()) {
    return Failure(
        ErrorCode::kResourceExhausted,
        "cannot map a segment of " + std::to_string(bytes) + " bytes: " + ErrnoText(errno));
  }
  ::madvise(region.data(), region.size(), MADV_DONTFORK);
  return {};
}

}  // namespace

Outcome Session::Connect(const ConnectSettings& settings, std::shared_ptr<Session>& session) {
  session = std::shared_ptr<Session>(new Session);
  session->settings_ = settings;
  Outcome joined = session->Join(Now() + settings.timeout);
  if (!joined.ok()) {
    session->Leave();
    session.reset();
  }
  return joined;
}

Session::~Session() {
  if (IsForked()) {
    heap_.Abandon();
    control_memory_.Abandon();
    for (auto& [number, segment] : results_) {
      segment.memory.Abandon();
    }
  }
}

Outcome Session::Join(TimePoint deadline) {
  if (Outcome connected = socket_.Connect(settings_.socket); !connected.ok()) {
    return connected;
  }
  if (Outcome greeted = SayHello(deadline); !greeted.ok()) {
    return greeted;
  }
  return AwaitReady(deadline);
}

Outcome Session::SayHello(TimePoint deadline) {
  auto hello = MakeMessage<Hello>(MessageKind::kHello, kClientProtocol);
  StoreText(hello.version, kVersion);
  hello.rank = settings_.rank;
  hello.world_size = settings_.world_size;
  hello.pid = ::getpid();
  hello.timeout_ns = settings_.timeout.count();
  hello.job_bytes = StoreText(hello.job, settings_.job);
  // An agent that refuses at once has closed already, and its reply waits for us: so the reply is
  // what counts.
  const Outcome sent = socket_.Send(&hello, sizeof(hello));
  Packet packet;
  if (Outcome received = socket_.Receive(packet, deadline); !received.ok()) {
    return sent.ok() ? received : sent;
  }
  return ReadHelloReply(packet);
}

Outcome Session::ReadHelloReply(Packet& packet) {
  HelloReply reply;
  std::memcpy(&reply, packet.bytes.data(), std::min(sizeof(reply), packet.size));
  if (packet.size < sizeof(reply) || reply.header.magic != kHandshakeMagic ||
      reply.header.kind != MessageKind::kHelloReply) {
    return Failure(ErrorCode::kFailedPrecondition,
                   socket_.name() + " does not speak Maypole's client protocol");
  }
  if (reply.header.protocol != kClientProtocol) {
    return Failure(ErrorCode::kFailedPrecondition,
                   "this client (version " + std::string(kVersion) + ") speaks protocol " +
                       std::to_string(kClientProtocol) + ", but " + socket_.name() + " (version " +
                       std::string(LoadTerminated(reply.version)) + ") speaks protocol " +
                       std::to_string(reply.header.protocol) +
                       ": install the same version of both");
  }
  if (reply.code != 0) {
    return Failure(static_cast<ErrorCode>(reply.code),
                   std::string(LoadText(reply.text, reply.text_bytes)));
  }
  if (Outcome taken = CheckTaken(packet.fds[1], socket_); !taken.ok()) {
    return taken;
  }
  if (Outcome mapped =
          MapPassed(packet.fds[0], socket_, kControlBytes, MapAccess::kReadWrite, control_memory_);
      !mapped.ok()) {
    return mapped;
  }
  auto& control = *reinterpret_cast<ControlSegment*>(control_memory_.data());
  if (control.header.magic != kSegmentMagic || control.header.slot_count != kSlotCount ||
      control.header.ring_entries != kRingEntries) {
    return Failure(ErrorCode::kInternal,
                   socket_.name() + " passed a control segment of another form");
  }
  doorbell_.Open([](int fd) { return fd; }, packet.fds[1].Release());
  channel_.emplace(control, [this] {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(doorbell_.get(), &one, sizeof(one));
  });
  return {};
}

// When the time is over the coordinator says who is missing; if nothing comes, the agent or the
// coordinator is what is missing.
Outcome Session::AwaitReady(TimePoint deadline) {
  constexpr Duration kForTheReason = std::chrono::seconds(1);
  Packet packet;
  Outcome received = socket_.ReceiveMessage(
      MessageKind::kSessionReady, deadline + kForTheReason, membership_, packet);
  if (received.code == ErrorCode::kTimeout) {
    return Failure(ErrorCode::kTimeout,
                   "rank " + std::to_string(settings_.rank) + " has waited " +
                       SecondsText(settings_.timeout) + " for job \"" + settings_.job +
                       "\" (world size " + std::to_string(settings_.world_size) +
                       ") to form, and " + socket_.name() +
                       " does not say who is missing: look at its log, and whether it reaches the "
                       "coordinator");
  }
  if (received.ok() && membership_.code != 0) {
    return Failure(static_cast<ErrorCode>(membership_.code),
                   std::string(LoadText(membership_.text, membership_.text_bytes)),
                   std::string(LoadText(membership_.culprits, membership_.culprit_bytes)));
  }
  return received;
}

bool Session::IsForked() const {
  return ProcessGeneration() != generation_;
}

Outcome Session::Standing() const {
  if (IsForked()) {
    return Failure(ErrorCode::kFailedPrecondition,
                   "this session belongs to the process that forked this one: a forked child (a "
                   "data loader, for "
                   "example) may not use it; connect in the process that trains");
  }
  if (has_left_) {
    return Failure(ErrorCode::kFailedPrecondition, "the session is closed");
  }
  if (Outcome ended = channel_->SessionOutcome(); !ended.ok()) {
    return ended;
  }
  if (agent_is_gone_) {
    return Failure(
        ErrorCode::kAgentUnavailable,
        socket_.name() + " is gone: it ended or was killed; start it again and connect anew");
  }
  if (agent_is_stopped_) {
    return Failure(ErrorCode::kAgentUnavailable,
                   socket_.name() + " has shown no sign of life for " +
                       SecondsText(Duration(membership_.lease_ns)) +
                       " (its --peer-lease): it is stopped or starved of CPU; see to it and "
                       "connect anew");
  }
  return {};
}

void Session::LookAtAgent() {
  const std::int64_t now = Now().time_since_epoch().count();
  std::int64_t last = looked_at_agent_ns_.load();
  if (now - last < kLookInterval.count() ||
      !looked_at_agent_ns_.compare_exchange_strong(last, now)) {
    return;
  }
  const std::shared_lock in_use(lifetime_mutex_);
  if (has_left_) {
    return;
  }
  if (socket_.AgentIsGone()) {
    agent_is_gone_ = true;
  }
  // For a long time between two looks nobody waited, or we were stopped ourselves: it counts
  // little.
  const std::uint64_t beats = channel_->agent_beats();
  const std::int64_t passed = std::min(now - last, membership_.lease_ns / kLooksPerLeaseMin);
  if (seen_beats_.exchange(beats) != beats) {
    without_beat_ns_ = 0;
  } else if ((without_beat_ns_ += passed) > membership_.lease_ns && membership_.lease_ns > 0) {
    agent_is_stopped_ = true;
  }
}

template <typename Request, typename Reply>
Outcome Session::Exchange(const Request& request, MessageKind kind, Reply& reply, Packet& packet) {
  const std::lock_guard lock(socket_mutex_);
  Outcome done = socket_.Send(&request, sizeof(request));
  if (done.ok()) {
    done = socket_.ReceiveMessage(kind, Now() + kReplyTimeout, reply, packet);
  }
  if (!done.ok()) {
    // A reply that comes later would answer the next request: the conversation is over.
    agent_is_gone_ = true;
    if (done.code == ErrorCode::kTimeout) {
      return Failure(
          ErrorCode::kAgentUnavailable,
          socket_.name() + " has not answered a request for 5 s: it is stopped or overloaded");
    }
  }
  return done;
}

Outcome Session::AllocateSegment(std::size_t bytes, DataSegment& segment) {
  auto request = MakeMessage<AllocateRequest>(MessageKind::kAllocateRequest, kClientProtocol);
  request.bytes = bytes;
  AllocateReply reply;
  Packet packet;
  if (Outcome done = Exchange(request, MessageKind::kAllocateReply, reply, packet); !done.ok()) {
    return done;
  }
  if (reply.code != 0) {
    return Failure(static_cast<ErrorCode>(reply.code),
                   std::string(LoadText(reply.text, reply.text_bytes)));
  }
  segment.number = reply.segment;
  Outcome mapped = MapPassed(packet.fds[0], socket_, bytes, MapAccess::kReadWrite, segment.memory);
  if (!mapped.ok()) {
    FreeSegment(segment.number);
  }
  return mapped;
}

void Session::FreeSegment(std::uint32_t number) {
  auto request = MakeMessage<FreeRequest>(MessageKind::kFreeRequest, kClientProtocol);
  request.segment = number;
  const std::lock_guard lock(socket_mutex_);
  socket_.Send(&request, sizeof(request));
}

Outcome Session::TakeResult(std::uint32_t number, const MappedRegion*& region) {
  const std::lock_guard lock(results_mutex_);
  const auto known = results_.find(number);
  if (known != results_.end()) {
    ++known->second.users;
    region = &known->second.memory;
    return {};
  }
  // The agent has perhaps dropped the others, and uses no number twice.
  std::erase_if(results_, [](const auto& entry) { return entry.second.users == 0; });
  auto request = MakeMessage<ResultRequest>(MessageKind::kResultRequest, kClientProtocol);
  request.segment = number;
  AllocateReply reply;
  Packet packet;
  if (Outcome done = Exchange(request, MessageKind::kAllocateReply, reply, packet); !done.ok()) {
    return done;
  }
  if (reply.code != 0) {
    return Failure(static_cast<ErrorCode>(reply.code),
                   std::string(LoadText(reply.text, reply.text_bytes)));
  }
  ResultSegment segment{.memory = {}, .users = 1};
  if (Outcome done =
          MapPassed(packet.fds[0], socket_, reply.bytes, MapAccess::kReadOnly, segment.memory);
      !done.ok()) {
    return done;
  }
  region = &results_.emplace(number, std::move(segment)).first->second.memory;
  return {};
}

void Session::GiveResult(std::uint32_t number) {
  const std::lock_guard lock(results_mutex_);
  --results_.at(number).users;
}

Outcome Session::Allocate(std::size_t bytes, void*& memory) {
  if (Outcome standing = Standing(); !standing.ok()) {
    return standing;
  }
  const std::shared_lock in_use(lifetime_mutex_);
  std::byte* block = nullptr;
  Outcome allocated = staging_.Allocate(std::max<std::size_t>(bytes, 1), Fill::kZero, block);
  memory = block;
  return allocated;
}

Outcome Session::Free(void* memory) {
  if (IsForked()) {
    return Standing();
  }
  const std::shared_lock in_use(lifetime_mutex_);
  return is_closed_ ? Standing() : heap_.Free(memory);
}

Outcome Session::Stats(StatsReply& stats) {
  if (Outcome standing = Standing(); !standing.ok()) {
    return standing;
  }
  const std::shared_lock in_use(lifetime_mutex_);
  Packet packet;
  return Exchange(MakeMessage<StatsRequest>(MessageKind::kStatsRequest, kClientProtocol),
                  MessageKind::kStatsReply,
                  stats,
                  packet);
}

void Session::Leave() {
  if (IsForked() || has_left_.exchange(true)) {
    return;
  }
  const std::shared_lock in_use(lifetime_mutex_);
  if (!agent_is_gone_) {
    socket_.StopReceiving();  // or a request under way would keep the mutex
    const std::lock_guard lock(socket_mutex_);
    const auto goodbye = MakeMessage<Goodbye>(MessageKind::kGoodbye, kClientProtocol);
    socket_.Send(&goodbye, sizeof(goodbye));
  }
  socket_.Shutdown();
  if (channel_) {
    channel_->WakeAll();
  }
}

void Session::Close() {
  if (IsForked()) {
    return;
  }
  Leave();
  const std::unique_lock alone(lifetime_mutex_);
  is_closed_ = true;
  socket_.Close();
  doorbell_.Close();
  heap_.Clear();
  results_.clear();
}

}  // namespace maypole::client::internal
