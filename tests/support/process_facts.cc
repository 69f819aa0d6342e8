#include "tests/support/process_facts.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace maypole::test {
namespace {

namespace fs = std::filesystem;

std::string ProcPath(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

}  // namespace

std::string TextOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

double CpuSeconds(pid_t pid) {
  double nanoseconds = 0;
  std::error_code error;
  for (const fs::directory_entry& task : fs::directory_iterator(ProcPath(pid, "task"), error)) {
    double ran = 0;
    std::ifstream(task.path() / "schedstat") >> ran;
    nanoseconds += ran;
  }
  return nanoseconds * 1e-9;
}

std::size_t AnonymousBytes(pid_t pid) {
  std::ifstream status(ProcPath(pid, "status"));
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") {
      std::size_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes * 1024;
    }
  }
  return 0;
}

std::size_t OpenDescriptors(pid_t pid) {
  std::error_code error;
  const fs::directory_iterator entries(ProcPath(pid, "fd"), error);
  return error ? 0 : static_cast<std::size_t>(std::distance(fs::begin(entries), fs::end(entries)));
}

std::vector<pid_t> ProcessesWith(const std::string& assignment) {
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos || std::stoi(name) == getpid()) {
      continue;
    }
    const std::string environment = '\0' + TextOfFile(entry.path() / "environ") + '\0';
    if (environment.find('\0' + assignment + '\0') != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

bool Eventually(const std::function<bool()>& condition, std::chrono::duration<double> limit) {
  const Stopwatch watch;
  while (!condition()) {
    if (watch.Seconds() > limit.count()) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace maypole::test
