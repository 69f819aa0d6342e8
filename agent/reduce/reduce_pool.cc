#include "agent/reduce/reduce_pool.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/check.h"
#include "common/unique_fd.h"

namespace maypole::agent {
namespace {

// Waking a helper costs the loop a few microseconds and takes 20 to 50 until it runs. So it is
// woken only for this many bytes of memory traffic beyond the piece that the loop takes next and
// what the helpers awake have before them: about 20 us of work.
constexpr std::uint64_t kWakeBytes = 256 * 1024;

struct Piece {
  std::uint64_t token = 0;
  std::uint64_t bytes = 0;  // of memory traffic
  ReduceWork work;
};

std::uint64_t TrafficOf(const ReduceWork& work) {
  std::uint64_t element_bytes = 0;
  for (const Operand& input : work.inputs) {
    element_bytes += SizeOf(input.dtype);
  }
  for (const Operand& output : work.outputs) {
    element_bytes += SizeOf(output.dtype);
  }
  std::uint64_t bytes = work.elements * element_bytes;
  for (const ReduceWork::Save& save : work.saves) {
    bytes += save.source.bytes;
  }
  return bytes;
}

// Signals are the main thread's business: a thread that is started while this lives takes none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }

  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

// Threads: `mutex` guards what stands below it; it is held for a few instructions, never while a
// piece is run.
struct ReducePool::State {
  void Help();
  void Run(const ReduceWork& work);
  std::optional<Piece> TakePiece();
  bool WantsHelper() const;

  UniqueFd event;
  std::atomic<std::uint64_t> busy_nanoseconds{0};

  // The loop's own.
  std::size_t pending = 0;
  std::vector<std::uint64_t> done_here;
  std::vector<std::thread> helpers;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<Piece> queue;
  std::uint64_t queued_bytes = 0;
  std::vector<std::uint64_t> done;  // by helpers
  std::size_t awake = 0;            // helpers that run a piece or were told to
  std::size_t woken = 0;            // helpers that were told to, and have not noticed yet
  bool armed = false;
  bool signalled = false;  // `event` is readable
  bool stopping = false;
};

bool ReducePool::State::WantsHelper() const {
  if (awake == helpers.size() || queue.size() < 2) {
    return false;
  }
  return queued_bytes - queue.front().bytes >= kWakeBytes * (awake + 1);
}

std::optional<Piece> ReducePool::State::TakePiece() {
  if (queue.empty()) {
    return std::nullopt;
  }
  std::optional<Piece> piece(std::move(queue.front()));
  queue.pop_front();
  queued_bytes -= piece->bytes;
  return piece;
}

void ReducePool::State::Run(const ReduceWork& work) {
  const auto begin = std::chrono::steady_clock::now();
  Reduce(work);
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin;
  // Relaxed: a statistic, which orders nothing.
  busy_nanoseconds.fetch_add(static_cast<std::uint64_t>(spent.count()), std::memory_order_relaxed);
}

void ReducePool::State::Help() {
  std::unique_lock lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stopping || woken > 0; });
    if (stopping) {
      return;
    }
    --woken;
    while (!stopping) {
      std::optional<Piece> piece = TakePiece();
      if (!piece.has_value()) {
        break;
      }
      lock.unlock();
      Run(piece->work);
      lock.lock();
      done.push_back(piece->token);
      if (std::exchange(armed, false)) {
        signalled = true;
        const std::uint64_t one = 1;
        MAYPOLE_CHECK(::write(event.get(), &one, sizeof(one)) == sizeof(one));
      }
    }
    --awake;
  }
}

ReducePool::ReducePool(int threads) : state_(std::make_unique<State>()) {
  MAYPOLE_CHECK(threads >= 1);
  state_->event.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  MAYPOLE_CHECK(state_->event.valid());
  const SignalsBlocked blocked;
  for (int i = 1; i < threads; ++i) {
    std::thread& helper = state_->helpers.emplace_back([state = state_.get()] { state->Help(); });
    pthread_setname_np(helper.native_handle(), "maypole-reduce");
  }
}

ReducePool::~ReducePool() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->wake.notify_all();
  for (std::thread& helper : state_->helpers) {
    helper.join();
  }
}

void ReducePool::Submit(std::uint64_t token, ReduceWork work) {
  ++state_->pending;
  const std::uint64_t bytes = TrafficOf(work);
  bool wake = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back({token, bytes, std::move(work)});
    state_->queued_bytes += bytes;
    wake = state_->WantsHelper();
    if (wake) {
      ++state_->awake;
      ++state_->woken;
    }
  }
  if (wake) {
    state_->wake.notify_one();
  }
}

bool ReducePool::RunOne() {
  std::optional<Piece> piece;
  {
    const std::lock_guard lock(state_->mutex);
    piece = state_->TakePiece();
  }
  if (!piece.has_value()) {
    return false;
  }
  state_->Run(piece->work);
  state_->done_here.push_back(piece->token);
  return true;
}

void ReducePool::TakeDone(std::vector<std::uint64_t>& done) {
  const std::size_t before = done.size();
  done.insert(done.end(), state_->done_here.begin(), state_->done_here.end());
  state_->done_here.clear();
  {
    const std::lock_guard lock(state_->mutex);
    done.insert(done.end(), state_->done.begin(), state_->done.end());
    state_->done.clear();
    state_->armed = false;
    if (std::exchange(state_->signalled, false)) {
      std::uint64_t count = 0;
      MAYPOLE_CHECK(::read(state_->event.get(), &count, sizeof(count)) == sizeof(count));
    }
  }
  state_->pending -= done.size() - before;
}

std::size_t ReducePool::Pending() const {
  return state_->pending;
}

int ReducePool::EventFd() const {
  return state_->event.get();
}

bool ReducePool::Arm() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->done_here.empty() || !state_->done.empty() || !state_->queue.empty()) {
    return false;
  }
  state_->armed = true;
  return true;
}

std::uint64_t ReducePool::BusyNanoseconds() const {
  return state_->busy_nanoseconds.load(std::memory_order_relaxed);
}

}  // namespace maypole::agent
