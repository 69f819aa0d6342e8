#include "agent/control/coordinator_client.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <variant>

#include "agent/control/attach_stream.h"
#include "agent/control/control_messages.h"
#include "common/check.h"
#include "common/unique_fd.h"
#include "proto/coordinator.pb.h"

namespace maypole::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBackoffMin{100};
constexpr milliseconds kBackoffMax{2000};
// From the start of an attempt to the coordinator's welcome.
constexpr milliseconds kWelcomeTimeout{5000};

// A thread makes one attempt after the other; all it does is wait. The loop takes events out of a
// queue.
class ReattachingClient final : public CoordinatorClient {
 public:
  explicit ReattachingClient(CoordinatorClientOptions options)
      : options_(std::move(options)),
        event_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        jitter_(options_.incarnation),
        thread_([this] { Run(); }) {
    MAYPOLE_CHECK(event_fd_.valid());
  }

  ~ReattachingClient() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      if (stream_ != nullptr) {
        stream_->Cancel();
      }
    }
    changed_.notify_all();
    thread_.join();
  }

  void Tell(const ControlMessage& message) override {
    if (!SendToSeen(ToMessage(message))) {
      std::lock_guard lock(mutex_);
      has_news_ = true;
      changed_.notify_all();
    }
  }

  void Report(const AgentReport& report) override {
    v1::AgentMessage message = ToMessage(report);
    std::string bytes = message.SerializeAsString();
    if (bytes != last_report_ && SendToSeen(message)) {
      last_report_ = std::move(bytes);
    }
  }

  void SetEpochs(std::vector<EpochInfo> epochs) override {
    std::lock_guard lock(mutex_);
    epochs_ = std::move(epochs);
  }

  bool Poll(std::vector<ControlEvent>& events) override {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = read(event_fd_.get(), &count, sizeof(count));
    std::lock_guard lock(mutex_);
    if (epoch_ == EpochNews::kTaken) {
      epoch_ = EpochNews::kNone;
      changed_.notify_all();
    }
    for (Queued& queued : queue_) {
      if (const auto* link = std::get_if<CoordinatorLink>(&queued.event)) {
        seen_attempt_ = link->up ? queued.attempt : 0;
        last_report_.clear();
      }
      if (std::holds_alternative<EpochInfo>(queued.event)) {
        epoch_ = EpochNews::kTaken;
      }
      events.push_back(std::move(queued.event));
    }
    const bool any = !queue_.empty();
    queue_.clear();
    return any;
  }

  int EventFd() const override { return event_fd_.get(); }

 private:
  struct Queued {
    ControlEvent event;
    std::uint64_t attempt = 0;
  };

  // An epoch that was not told in the next hello would be taken for one whose ranks have left. The
  // loop has called SetEpochs by the time that it polls again.
  enum class EpochNews : std::uint8_t { kNone, kQueued, kTaken };

  // Only a stream whose coming up the loop has seen is spoken to: what the loop says before that,
  // it says again when it sees it, and a join said twice would be refused as a second rank of that
  // number.
  bool SendToSeen(const v1::AgentMessage& message) {
    std::shared_ptr<AttachStream> stream;
    {
      std::lock_guard lock(mutex_);
      if (!link_up_ || seen_attempt_ != attempt_) {
        return false;
      }
      stream = stream_;
    }
    stream->Send(message);
    return true;
  }

  void Run() {
    milliseconds backoff = kBackoffMin;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait(lock, [this] { return stopping_ || epoch_ == EpochNews::kNone; });
      if (stopping_) {
        break;
      }
      const bool was_up = Attempt(lock);
      backoff = was_up ? kBackoffMin : backoff;
      std::uniform_int_distribution<milliseconds::rep> wait(backoff.count() / 2, backoff.count());
      changed_.wait_for(
          lock, milliseconds(wait(jitter_)), [this] { return stopping_ || has_news_; });
      // A rank that waits is worth an attempt at once, and frequent ones after it.
      backoff = std::exchange(has_news_, false) ? kBackoffMin : std::min(2 * backoff, kBackoffMax);
    }
  }

  // One stream from start to end. True if the coordinator welcomed us. Called and left with the
  // lock held.
  bool Attempt(std::unique_lock<std::mutex>& lock) {
    ++attempt_;
    done_ = false;
    fault_.clear();
    const v1::AgentMessage hello = HelloMessage(options_, epochs_);
    // Known before it begins: the loop may speak to it as soon as the welcome is there.
    const std::shared_ptr<AttachStream> stream = stream_ = AttachStream::Create(
        options_.coordinator,
        {.on_message = [this](const v1::CoordinatorMessage& message) { OnMessage(message); },
         .on_done = [this](const std::string& reason) { OnDone(reason); }});
    lock.unlock();  // gRPC may call back before Begin returns
    stream->Begin(hello);
    lock.lock();
    if (!changed_.wait_for(lock, kWelcomeTimeout, [this] {
          return done_ || link_up_ || stopping_ || !fault_.empty();
        })) {
      fault_ = "it did not answer in time";
    }
    if (stopping_ || !fault_.empty()) {
      stream->Cancel();
    }
    changed_.wait(lock, [this] { return done_; });
    stream_.reset();
    const bool was_up = std::exchange(link_up_, false);
    PushDown(was_up);
    return was_up;
  }

  void PushDown(bool was_up) {
    std::string text = (was_up ? "lost the coordinator at " : "no coordinator at ") +
                       options_.coordinator + ": " + fault_ + "; trying again";
    if (!stopping_ && text != down_text_) {
      Push(CoordinatorLink{.up = false, .text = text});
    }
    down_text_ = std::move(text);
  }

  void OnMessage(const v1::CoordinatorMessage& message) {
    absl::StatusOr<ControlEvent> event = ToEvent(message, options_);
    std::lock_guard lock(mutex_);
    if (!fault_.empty()) {
      return;
    }
    if (!event.ok()) {
      Fault("it sent what cannot be: " + std::string(event.status().message()));
      return;
    }
    if (std::holds_alternative<CoordinatorLink>(*event)) {
      link_up_ = true;
      down_text_.clear();
      changed_.notify_all();
    } else if (const auto* refused = std::get_if<AgentRefused>(&*event)) {
      Fault("it refused this agent: " + refused->text);
    } else if (!link_up_) {
      Fault("it spoke before its welcome");
      return;
    }
    Push(*std::move(event));
  }

  // Ends this attempt with our own reason.
  void Fault(std::string reason) {
    fault_ = std::move(reason);
    if (stream_ != nullptr) {
      stream_->Cancel();
    }
    changed_.notify_all();
  }

  void OnDone(const std::string& reason) {
    std::lock_guard lock(mutex_);
    fault_ = fault_.empty() ? reason : fault_;
    done_ = true;
    changed_.notify_all();
  }

  void Push(ControlEvent event) {
    if (std::holds_alternative<EpochInfo>(event)) {
      epoch_ = EpochNews::kQueued;
    }
    queue_.push_back({std::move(event), attempt_});
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = write(event_fd_.get(), &one, sizeof(one));
  }

  const CoordinatorClientOptions options_;
  const UniqueFd event_fd_;
  std::string last_report_;  // loop's thread
  std::minstd_rand jitter_;  // our thread

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool stopping_ = false;
  std::vector<EpochInfo> epochs_;
  EpochNews epoch_ = EpochNews::kNone;
  std::vector<Queued> queue_;
  std::uint64_t attempt_ = 0;       // number of the present or last attempt
  std::uint64_t seen_attempt_ = 0;  // whose coming up the loop has seen; 0: none
  std::shared_ptr<AttachStream> stream_;
  bool link_up_ = false;
  bool done_ = false;
  bool has_news_ = false;  // something waits to be told to the coordinator
  std::string fault_;      // why this attempt ends
  std::string down_text_;  // what the loop was last told, so that it is told only news

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<CoordinatorClient> CoordinatorClient::Create(CoordinatorClientOptions options) {
  return std::make_unique<ReattachingClient>(std::move(options));
}

}  // namespace maypole::agent
