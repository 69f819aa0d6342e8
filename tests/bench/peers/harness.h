// Times the all-reduce of another library by the same rules as `maypole bench`: in place, f32 sum,
// the first result checked element by element, warm-ups, then operations back to back; an operation
// takes from one completion of the last rank to the next. Rank 0 prints one line of JSON per size.
//
// Environment: PEER_BOARD (a file that all ranks map), PEER_SIZES (bytes, comma-separated),
// PEER_SECONDS (aim per size).
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace peers {

constexpr int kMostRanks = 64;
constexpr int kMostIterations = 20000;
constexpr int kFewestIterations = 10;

// In place; returns when the calling rank has its result.
using AllReduce = std::function<void(float* data, std::size_t count)>;

struct Board {
  double cpu_seconds[kMostRanks];
  double ends[kMostRanks][kMostIterations + 1];
};

inline std::string Variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double ProcessCpu() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](timeval time) {
    return double(time.tv_sec) + double(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Busy time of all cores since boot, softirq included.
inline double MachineCpu() {
  std::ifstream file("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
  file >> label >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  return (user + nice + system + irq + softirq) / double(sysconf(_SC_CLK_TCK));
}

inline Board* MapBoard() {
  const std::string path = Variable("PEER_BOARD", "/tmp/peer-board");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
  void* memory = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(Board)) == 0) {
    memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (memory == MAP_FAILED) {
    std::perror(path.c_str());
    std::exit(1);
  }
  return static_cast<Board*>(memory);
}

class Harness {
 public:
  Harness(int rank, int ranks, AllReduce all_reduce)
      : rank_(rank), ranks_(ranks), all_reduce_(std::move(all_reduce)), board_(MapBoard()) {}

  void Run() {
    if (Variable("PEER_LATE", "0") == "1") {
      Wait();
      return;
    }
    std::stringstream list(Variable("PEER_SIZES", "4096"));
    for (std::string size; std::getline(list, size, ',');) {
      Measure(std::stoull(size));
    }
  }

 private:
  // Sums `value` over all ranks; also a barrier.
  double Sum(double value) {
    float word = float(value);
    all_reduce_(&word, 1);
    return word;
  }

  void Wait() {
    Sum(0);
    if (rank_ == 0) {
      sleep(1);
    }
    const double before = ProcessCpu();
    Sum(0);
    board_->cpu_seconds[rank_] = ProcessCpu() - before;
    Sum(0);
    if (rank_ == 0) {
      double cpu = 0;
      for (int rank = 1; rank < ranks_; ++rank) {
        cpu += board_->cpu_seconds[rank];
      }
      std::printf("{\"bytes\": 0, \"waiting_cpu\": %.4f}\n", cpu / (ranks_ - 1));
      std::fflush(stdout);
    }
    Sum(0);
  }

  void Check(float* data, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      data[i] = float((rank_ + 1) * int(i % 1000));
    }
    all_reduce_(data, count);
    const int factor = ranks_ * (ranks_ + 1) / 2;
    for (std::size_t i = 0; i < count; ++i) {
      if (data[i] != float(factor * int(i % 1000))) {
        std::fprintf(stderr, "wrong result at %zu: %g\n", i, double(data[i]));
        std::exit(1);
      }
    }
    std::fill(data, data + count, 0.0F);
  }

  int Iterations(float* data, std::size_t count) {
    Sum(0);
    const double start = Now();
    all_reduce_(data, count);
    all_reduce_(data, count);
    const double fit = std::stod(Variable("PEER_SECONDS", "1")) * 2 / (Now() - start);
    return int(
        Sum(rank_ == 0 ? std::clamp(fit, double(kFewestIterations), double(kMostIterations)) : 0));
  }

  void Measure(std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    const std::unique_ptr<float, decltype(&std::free)> memory(
        static_cast<float*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), &std::free);
    float* data = memory.get();
    Check(data, count);
    const int iterations = Iterations(data, count);
    for (int i = 0; i < std::min(3 + iterations / 10, 200); ++i) {
      all_reduce_(data, count);
    }
    Sum(0);
    const double machine_before = MachineCpu();
    Sum(0);
    const double before = ProcessCpu();
    for (int i = 0; i <= iterations; ++i) {
      all_reduce_(data, count);
      board_->ends[rank_][i] = Now();
    }
    board_->cpu_seconds[rank_] = ProcessCpu() - before;
    const double machine = MachineCpu() - machine_before;
    Sum(0);
    if (rank_ == 0) {
      Print(bytes, iterations, machine);
    }
    Sum(0);
  }

  void Print(std::size_t bytes, int iterations, double machine) const {
    std::vector<double> ends(std::size_t(iterations) + 1, 0.0);
    double cpu = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      cpu += board_->cpu_seconds[rank];
      for (std::size_t i = 0; i < ends.size(); ++i) {
        ends[i] = std::max(ends[i], board_->ends[rank][i]);
      }
    }
    std::vector<double> times;
    for (std::size_t i = 1; i < ends.size(); ++i) {
      times.push_back(ends[i] - ends[i - 1]);
    }
    std::sort(times.begin(), times.end());
    const double gigabytes = double(bytes) * (iterations + 1) / 1e9;
    std::printf(
        "{\"bytes\": %zu, \"ranks\": %d, \"iterations\": %d, \"time_us\": %.3f, \"time_min_us\": "
        "%.3f, "
        "\"cpu_s_per_gb\": %.4f, \"machine_cpu_s_per_gb\": %.4f}\n",
        bytes,
        ranks_,
        iterations,
        times[times.size() / 2] * 1e6,
        times[0] * 1e6,
        cpu / gigabytes,
        machine / gigabytes);
    std::fflush(stdout);
  }

  int rank_;
  int ranks_;
  AllReduce all_reduce_;
  Board* board_;
};

}  // namespace peers
