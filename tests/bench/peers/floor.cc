// The limit of this machine for ranks on one node: an all-reduce without copies, by two threads
// over all ranks' buffers, and memcpy. Prints the harness's JSON; RANKS and PEER_SIZES as there.
#include <pthread.h>
#include <sched.h>

#include <cstring>
#include <thread>

#include "harness.h"

namespace {

constexpr std::size_t kBlock = 1024;  // elements; stays in the first-level cache
constexpr int kThreads = 2;
constexpr int kRepetitions = 15;

struct Work {
  std::vector<float*> buffers;
  std::size_t count;
};

// Sums [begin, end) into the first buffer and copies the sum to the others, block by block.
void ReduceRange(const Work& work, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; at += kBlock) {
    const std::size_t size = std::min(kBlock, end - at);
    float* __restrict target = work.buffers[0] + at;
    for (std::size_t rank = 1; rank < work.buffers.size(); ++rank) {
      const float* __restrict source = work.buffers[rank] + at;
      for (std::size_t i = 0; i < size; ++i) {
        target[i] += source[i];
      }
    }
    for (std::size_t rank = 1; rank < work.buffers.size(); ++rank) {
      std::memcpy(work.buffers[rank] + at, target, size * sizeof(float));
    }
  }
}

std::vector<double> Time(const Work& work) {
  std::vector<double> times;
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, nullptr, kThreads);
  const auto run = [&](int thread) {
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(thread, &core);
    sched_setaffinity(0, sizeof core, &core);
    for (int i = 0; i < kRepetitions + 2; ++i) {
      pthread_barrier_wait(&barrier);
      const double start = peers::Now();
      ReduceRange(work,
                  work.count * std::size_t(thread) / kThreads,
                  work.count * std::size_t(thread + 1) / kThreads);
      pthread_barrier_wait(&barrier);
      if (thread == 0 && i >= 2) {
        times.push_back(peers::Now() - start);
      }
    }
  };
  std::thread other(run, 1);
  std::thread first(run, 0);
  first.join();
  other.join();
  std::sort(times.begin(), times.end());
  return times;
}

}  // namespace

int main() {
  const int ranks = std::stoi(peers::Variable("RANKS", "2"));
  std::stringstream list(peers::Variable("PEER_SIZES", "4096"));
  for (std::string size; std::getline(list, size, ',');) {
    Work work{{}, std::stoull(size) / sizeof(float)};
    for (int rank = 0; rank < ranks; ++rank) {
      work.buffers.push_back(
          static_cast<float*>(std::aligned_alloc(4096, (work.count * 4 + 4095) / 4096 * 4096)));
      std::memset(work.buffers.back(), 0, work.count * 4);
    }
    const double before = peers::ProcessCpu();
    const std::vector<double> times = Time(work);
    const double cpu =
        (peers::ProcessCpu() - before) / (double(work.count) * 4e-9 * (kRepetitions + 2));
    std::printf(
        "{\"bytes\": %zu, \"ranks\": %d, \"iterations\": %d, \"time_us\": %.3f, \"time_min_us\": "
        "%.3f, "
        "\"cpu_s_per_gb\": %.4f, \"machine_cpu_s_per_gb\": %.4f}\n",
        work.count * 4,
        ranks,
        kRepetitions,
        times[times.size() / 2] * 1e6,
        times[0] * 1e6,
        cpu,
        cpu);
    for (float* buffer : work.buffers) {
      std::free(buffer);
    }
  }
}
