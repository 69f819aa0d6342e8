#include "agent/segment/segment_server.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/segment/client_session.h"
#include "agent/segment/listener.h"
#include "common/time.h"

namespace maypole::agent {
namespace {

constexpr Duration kHelloTimeout = std::chrono::seconds(5);
// Connections that have not said hello. A client says it at once, so the oldest of too many is a
// stranger.
constexpr std::size_t kStrangersMax = 128;
constexpr std::size_t kAcceptsPerPoll = 64;
// While the loop spins, it looks at sockets only this often: a look costs a system call, and slots
// are what is urgent.
constexpr Duration kSocketInterval = std::chrono::microseconds(20);
constexpr Duration kBeatInterval = std::chrono::milliseconds(20);

// What an epoll entry means: session id * 2 + (doorbell ? 1 : 0); ids begin with 1.
constexpr std::uint64_t kListenerTag = 0;
constexpr std::uint64_t kTimerTag = 1;

TimePoint Now() {
  return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

class Server final : public SegmentServer {
 public:
  Server(SegmentServerOptions options, std::unique_ptr<Listener> listener)
      : options_(std::move(options)), listener_(std::move(listener)) {
    context_.version = options_.version;
    context_.limits = {options_.segments_per_session_max, options_.segment_bytes_per_session_max};
    context_.segments_max = options_.segments_max;
    context_.largest_holder = [this] {
      return LargestHolder([](const ClientSession& session) { return session.segments(); });
    };
  }

  absl::Status Open() {
    epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
    timer_.Reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!epoll_.valid() || !timer_.valid() || !Watch(listener_->fd(), EPOLLIN, kListenerTag) ||
        !Watch(timer_.get(), EPOLLIN | EPOLLET, kTimerTag)) {
      return absl::UnavailableError(
          absl::StrCat("cannot watch the clients' sockets: ", std::strerror(errno)));
    }
    return absl::OkStatus();
  }

  bool Poll(std::vector<ClientEvent>& events) override {
    bool any = false;
    const TimePoint now = Now();
    if (look_at_sockets_ || now - looked_at_sockets_ >= kSocketInterval) {
      look_at_sockets_ = false;
      looked_at_sockets_ = now;
      any = PollSockets(now);
    }
    const bool beats = now - last_beat_ >= kBeatInterval;
    for (auto& [id, session] : sessions_) {
      if (beats) {
        session->Beat();
      }
      any = session->TakeSlots() || any;
    }
    last_beat_ = beats ? now : last_beat_;
    std::erase_if(sessions_, [](const auto& entry) { return entry.second->is_over(); });
    any = any || !context_.events.empty();
    std::move(context_.events.begin(), context_.events.end(), std::back_inserter(events));
    context_.events.clear();
    return any;
  }

  bool Arm() override {
    is_armed_ = true;
    bool is_quiet = context_.events.empty();
    for (auto& [id, session] : sessions_) {
      is_quiet = session->SetSleeping(true) && is_quiet;
    }
    if (!is_quiet) {
      Disarm();
    }
    return is_quiet;
  }

  void Disarm() override {
    look_at_sockets_ = true;
    if (std::exchange(is_armed_, false)) {
      for (auto& [id, session] : sessions_) {
        session->SetSleeping(false);
      }
    }
  }

  int EventFd() const override { return epoll_.get(); }

  void Answer(const AnswerHello& answer) override {
    if (ClientSession* session = Find(answer.session)) {
      session->Answer(answer.outcome);
      if (session->doorbell() >= 0) {
        // Edge-triggered: nobody has to read the eventfd, which its client could make blocking.
        Watch(session->doorbell(), EPOLLIN | EPOLLET, answer.session * 2 + 1);
      }
      EraseIfOver(*session);
    }
  }

  void Ready(const SessionReady& ready) override {
    if (ClientSession* session = Find(ready.session)) {
      session->Ready(ready);
      session->SetSleeping(is_armed_);
    }
  }

  void Complete(const CompleteOp& done) override {
    if (ClientSession* session = Find(done.session)) {
      session->Complete(done);
    }
  }

  void Fail(const FailSession& failure) override {
    if (ClientSession* session = Find(failure.session)) {
      session->Fail(failure.outcome);
      EraseIfOver(*session);
    }
  }

  void Release(SessionId session) override { sessions_.erase(session); }

  void OnStats(std::function<void(StatsReply&)> fill) override {
    context_.fill_stats = std::move(fill);
  }

  void OnResultSegment(
      std::function<int(JobToken job, std::uint32_t segment, std::uint64_t& bytes)> open) override {
    context_.open_result = std::move(open);
  }

  std::uint64_t SegmentBytes() const override { return context_.segment_bytes; }

  std::size_t Sessions() const override { return sessions_.size(); }

 private:
  bool Watch(int fd, std::uint32_t events, std::uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  ClientSession* Find(SessionId id) {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.get();
  }

  void EraseIfOver(const ClientSession& session) {
    if (session.is_over()) {
      sessions_.erase(session.id());
    }
  }

  bool PollSockets(TimePoint now) {
    std::array<epoll_event, 64> ready;
    const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t tag = ready[static_cast<std::size_t>(i)].data.u64;
      if (tag == kListenerTag) {
        AcceptClients(now);
      } else if (tag == kTimerTag) {
        EndLateStrangers(now);
      } else if (ClientSession* session = Find(tag / 2)) {
        tag % 2 == 0 ? static_cast<void>(session->ReadSocket()) : session->OnDoorbell();
      }
    }
    return count > 0;
  }

  void AcceptClients(TimePoint now) {
    std::vector<UniqueFd> accepted;
    while (accepted.size() < kAcceptsPerPoll) {
      UniqueFd socket = listener_->Accept();
      if (!socket.valid()) {
        break;
      }
      accepted.push_back(std::move(socket));
    }
    // A new client may be the next holder of a rank whose former one has said goodbye: in this
    // order.
    for (auto& [id, session] : sessions_) {
      session->ReadSocket();
    }
    for (UniqueFd& socket : accepted) {
      Admit(std::move(socket), now);
    }
  }

  void Admit(UniqueFd socket, TimePoint now) {
    if (sessions_.size() < options_.sessions_max) {
      AddSession(std::move(socket), now);
      return;
    }
    ClientSession::TurnAway(socket.get(),
                            options_.version,
                            {ErrorCode::kResourceExhausted,
                             absl::StrCat("this agent has ",
                                          sessions_.size(),
                                          " sessions, which is its limit; ",
                                          LargestHolder([](const ClientSession&) { return 1; })),
                             ""});
  }

  // "process 4711 has 900", for an operator who looks for the one to end.
  std::string LargestHolder(const std::function<std::size_t(const ClientSession&)>& count) const {
    std::map<std::int64_t, std::size_t> counts;  // by process
    for (const auto& [id, session] : sessions_) {
      counts[session->pid()] += count(*session);
    }
    const auto largest =
        std::ranges::max_element(counts, {}, [](const auto& e) { return e.second; });
    return absl::StrCat("process ", largest->first, " has ", largest->second);
  }

  void AddSession(UniqueFd socket, TimePoint now) {
    const SessionId id = next_session_++;
    auto session =
        std::make_unique<ClientSession>(id, std::move(socket), now + kHelloTimeout, context_);
    if (!Watch(session->socket(), EPOLLIN, id * 2)) {
      return;
    }
    session->ReadSocket();
    if (session->is_over()) {
      return;
    }
    if (session->is_awaiting_hello()) {
      EndOldestStrangerOfTooMany();
      SetTimer(now);
    }
    sessions_.emplace(id, std::move(session));
  }

  void EndOldestStrangerOfTooMany() {
    const auto is_stranger = [](const auto& entry) { return entry.second->is_awaiting_hello(); };
    if (static_cast<std::size_t>(std::count_if(sessions_.begin(), sessions_.end(), is_stranger)) >=
        kStrangersMax) {
      sessions_.erase(std::find_if(sessions_.begin(), sessions_.end(), is_stranger));
    }
  }

  // Strangers have deadlines in the order in which they came, so one timer does: for the next one
  // after the first is late.
  void SetTimer(TimePoint now) {
    TimePoint next = now + kHelloTimeout;
    for (const auto& [id, session] : sessions_) {
      next = std::min(next, session->deadline());
    }
    const Duration left = std::max(next - now, Duration(1));
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
    ::timerfd_settime(timer_.get(), 0, &when, nullptr);
  }

  void EndLateStrangers(TimePoint now) {
    bool any_left = false;
    for (auto& [id, session] : sessions_) {
      session->OnDeadline(now);
      any_left = any_left || session->deadline() != kNever;
    }
    if (any_left) {
      SetTimer(now);
    }
  }

  SegmentServerOptions options_;
  SessionContext context_;
  std::unique_ptr<Listener> listener_;
  UniqueFd epoll_;
  UniqueFd timer_;
  // Ordered, so that the oldest come first; their ids only grow.
  std::map<SessionId, std::unique_ptr<ClientSession>> sessions_;
  SessionId next_session_ = 1;
  bool is_armed_ = false;
  bool look_at_sockets_ = true;
  TimePoint looked_at_sockets_{};
  TimePoint last_beat_{};
};

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentServer>> SegmentServer::Create(SegmentServerOptions options) {
  auto listener = Listener::Create(options.socket_path);
  if (!listener.ok()) {
    return listener.status();
  }
  auto server = std::make_unique<Server>(std::move(options), *std::move(listener));
  if (absl::Status opened = server->Open(); !opened.ok()) {
    return opened;
  }
  return server;
}

}  // namespace maypole::agent
