// A real SegmentServer with a core of a few lines behind it, in a thread: what clients need to be
// tested against.
//
// By default it admits everybody, adds 1 to every element of an f32 tensor, and completes at once.
// Threads: hooks run on the loop's thread; everything else may be called from the test's thread.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "agent/segment/sealed_memory.h"
#include "agent/segment/segment_server.h"

namespace maypole::test {

inline std::filesystem::path MakeTempDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "maypole-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    ADD_FAILURE() << "mkdtemp: " << std::strerror(errno);
  }
  return name;
}

class FakeAgent {
 public:
  struct Hooks {
    std::function<Outcome(const agent::ClientHello&)> on_hello = [](const auto&) {
      return Outcome{};
    };
    // Not called: the session is never ready.
    std::function<agent::SessionReady(const agent::ClientHello&)> on_ready =
        [](const agent::ClientHello& hello) {
          agent::SessionReady ready;
          ready.session = hello.session;
          ready.token = JobToken(7);
          ready.epoch = Epoch(1);
          ready.local_rank = hello.rank.value();
          ready.local_world_size = hello.world_size;
          ready.nodes = 1;
          ready.lease = std::chrono::milliseconds(300);
          return ready;
        };
    std::function<void(FakeAgent&, const agent::Submission&)> on_submission =
        [](FakeAgent& agent, const agent::Submission& op) { agent.AddOne(op); };
    bool releases_gone_sessions = true;
    // Shared results lie in so many segments in turn.
    std::uint32_t result_segments = 1;
  };

  FakeAgent() : FakeAgent(Hooks()) {}

  explicit FakeAgent(Hooks hooks, agent::SegmentServerOptions options = {})
      : hooks_(std::move(hooks)), directory_(MakeTempDirectory()) {
    options.socket_path = path();
    options.version = "0.1.0";
    auto server = agent::SegmentServer::Create(options);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    auto results = agent::CreateSealedMemory("results", 1 << 20);
    EXPECT_TRUE(results.ok()) << results.status();
    results_ = *std::move(results);
    server_->OnResultSegment([this](JobToken job, std::uint32_t segment, std::uint64_t& bytes) {
      bytes = results_.region.size();
      return job == JobToken(7) && segment < hooks_.result_segments ? ::dup(results_.fd.get()) : -1;
    });
    server_->OnStats([](StatsReply& stats) {
      stats.ops = 42;
      std::strcpy(stats.algorithm, "ring");
    });
    wake_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    thread_ = std::thread([this] { Loop(); });
  }

  ~FakeAgent() {
    Stop();
    std::filesystem::remove_all(directory_);
  }

  std::string path() const { return (directory_ / "agent.sock").string(); }

  // The agent ends: sockets close, nothing is completed any more.
  void Stop() {
    if (thread_.joinable()) {
      Do([this](agent::SegmentServer&) { is_stopping_ = true; });
      thread_.join();
      server_.reset();
    }
  }

  // Runs `work` on the loop's thread and waits for it.
  void Do(const std::function<void(agent::SegmentServer&)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    Wake();
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }

  // For hooks, on the loop's thread.
  agent::SegmentServer& server() { return *server_; }

  void AddOne(const agent::Submission& op) {
    auto* values = reinterpret_cast<float*>(op.tensor.address);
    agent::CompleteOp done;
    done.session = op.session;
    done.slot = op.slot;
    if (op.shared_result && op.elements > 0) {
      done.result = {shared_results_++ % hooks_.result_segments, 128, {}};
      auto* result = reinterpret_cast<float*>(results_.region.data() + 128);
      for (ElementCount i = 0; i < op.elements; ++i) {
        result[i] = values[i] + 1;
      }
    } else if (op.dtype == DType::kF32) {
      for (ElementCount i = 0; i < op.elements; ++i) {
        values[i] += 1;
      }
    }
    server_->Complete(done);
  }

  void Fail(const agent::Submission& op, Outcome outcome) {
    server_->Complete({op.session, op.slot, std::move(outcome), {}});
  }

  // What clients did so far. Waits until there are at least `count` of them; fewer after 10 s.
  template <typename Event>
  std::vector<Event> Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(
        lock, std::chrono::seconds(10), [&] { return Select<Event>().size() >= count; });
    return Select<Event>();
  }

 private:
  void Wake() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(wake_.get(), &one, sizeof(one)), 8);
  }

  void Loop() {
    std::vector<agent::ClientEvent> events;
    while (!is_stopping_) {
      events.clear();
      const bool any = server_->Poll(events);
      for (const auto& event : events) {
        std::visit([this](const auto& what) { On(what); }, event);
      }
      Record(events);
      RunWork();
      if (!any && !is_stopping_ && server_->Arm()) {
        pollfd wait[2] = {{server_->EventFd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        ::poll(wait, 2, 50);  // as an agent with ops in flight
        std::uint64_t drained = 0;
        [[maybe_unused]] const auto bytes = ::read(wake_.get(), &drained, sizeof(drained));
        server_->Disarm();
      }
    }
  }

  void Record(const std::vector<agent::ClientEvent>& events) {
    const std::lock_guard lock(mutex_);
    events_.insert(events_.end(), events.begin(), events.end());
    changed_.notify_all();
  }

  template <typename Event>
  std::vector<Event> Select() const {
    std::vector<Event> found;
    for (const auto& event : events_) {
      if (const auto* match = std::get_if<Event>(&event)) {
        found.push_back(*match);
      }
    }
    return found;
  }

  void RunWork() {
    const std::lock_guard lock(mutex_);
    if (work_ != nullptr) {
      (*work_)(*server_);
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  void On(const agent::ClientHello& hello) {
    const Outcome outcome = hooks_.on_hello(hello);
    server_->Answer({hello.session, outcome});
    if (outcome.ok() && hooks_.on_ready) {
      server_->Ready(hooks_.on_ready(hello));
    }
  }

  void On(const agent::Submission& op) { hooks_.on_submission(*this, op); }

  void On(const agent::ResultReleased&) {}

  void On(const agent::ClientGone& gone) {
    if (hooks_.releases_gone_sessions) {
      server_->Release(gone.session);
    }
  }

  Hooks hooks_;
  std::filesystem::path directory_;
  agent::SealedMemory results_;
  std::uint32_t shared_results_ = 0;
  std::unique_ptr<agent::SegmentServer> server_;
  UniqueFd wake_;
  bool is_stopping_ = false;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<agent::ClientEvent> events_;
  const std::function<void(agent::SegmentServer&)>* work_ = nullptr;
};

}  // namespace maypole::test
