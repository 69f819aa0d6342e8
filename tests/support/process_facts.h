// What /proc says about a process, and waiting for a condition.
//
// Threads: any.  Errors: 0 or empty for a process that is gone.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maypole::test {

// That its threads have spent on a core, to the nanosecond.
double CpuSeconds(pid_t pid);
// Resident memory that is its own: without files and shared memory.
std::size_t AnonymousBytes(pid_t pid);
std::size_t OpenDescriptors(pid_t pid);
// Every process whose environment holds `assignment` ("NAME=VALUE"), this one excepted.
std::vector<pid_t> ProcessesWith(const std::string& assignment);

std::string TextOfFile(const std::string& path);

// Asks again and again until `condition` holds; false if it does not within `limit`.
bool Eventually(const std::function<bool()>& condition,
                std::chrono::duration<double> limit = std::chrono::seconds(10));

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace maypole::test
