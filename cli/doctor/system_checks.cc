#include "cli/doctor/system_checks.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "common/unique_fd.h"
#include "daemon/parse.h"

namespace maypole::cli {
namespace {

constexpr std::uint64_t kUnlimited = RLIM_INFINITY;
constexpr off_t kProbeBytes = off_t{1} << 30;
constexpr std::uint64_t kEnoughFiles = 4096;

std::string LimitText(std::uint64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : daemon::FormatBytes(bytes);
}

}  // namespace

std::string FirstLine(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

Finding CheckMemfd() {
  const UniqueFd fd(memfd_create("maypole-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.valid() && ftruncate(fd.get(), kProbeBytes) == 0 &&
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    return {Level::kOk, "shared memory", "sealed memfds work (tried with 1 GiB)", ""};
  }
  return {Level::kFail,
          "shared memory",
          absl::StrCat("a sealed memfd of 1 GiB is refused: ", strerror(errno)),
          "allow memfd_create and ftruncate in the container's seccomp profile, and raise "
          "RLIMIT_FSIZE (ulimit -f)"};
}

Finding CheckMemlock(std::uint64_t limit, bool has_rdma) {
  const std::string text = LimitText(limit);
  if (limit == kUnlimited) {
    return {Level::kOk, "memlock limit", text, ""};
  }
  if (!has_rdma) {
    return {Level::kOk, "memlock limit", text + "; no matter without RDMA: nothing is pinned", ""};
  }
  return {
      Level::kFail,
      "memlock limit",
      text + "; RDMA pins the segments and would be refused",
      "LimitMEMLOCK=infinity in the agent's unit, the capability IPC_LOCK in its pod, or ulimit -l "
      "unlimited"};
}

Finding CheckOpenFiles(std::uint64_t permitted) {
  const std::string text =
      absl::StrCat(permitted == kUnlimited ? "unlimited" : absl::StrCat(permitted),
                   " permitted; an agent needs about 30, two per session and some per peer");
  if (permitted >= kEnoughFiles) {
    return {Level::kOk, "open files", text, ""};
  }
  return {Level::kWarn,
          "open files",
          text,
          absl::StrCat("LimitNOFILE=",
                       kEnoughFiles,
                       " in the agent's unit, or ulimit -n ",
                       kEnoughFiles,
                       " as root")};
}

Finding CheckDevShm() {
  struct statvfs info;
  const std::string why = "; not used: segments are memfds, which its size does not limit";
  if (statvfs("/dev/shm", &info) != 0) {
    return {Level::kOk, "/dev/shm", "none" + why, ""};
  }
  const double gib =
      static_cast<double>(info.f_blocks) * static_cast<double>(info.f_frsize) / 0x1p30;
  return {Level::kOk, "/dev/shm", absl::StrFormat("%.1f GiB", gib) + why, ""};
}

Finding CheckHugePages(const std::string& root) {
  const std::string path = root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  const std::string choices = FirstLine(path);
  const std::size_t open = choices.find('[');
  const std::string chosen =
      open == std::string::npos ? "" : choices.substr(open + 1, choices.find(']') - open - 1);
  if (chosen.empty()) {
    return {Level::kOk, "huge pages", "this kernel has none for shared memory", ""};
  }
  const std::string text = absl::StrCat("transparent, for shared memory: ", chosen);
  if (chosen == "never" || chosen == "deny") {
    return {Level::kWarn,
            "huge pages",
            text + "; large segments cost more page faults at first touch",
            "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled"};
  }
  return {Level::kOk, "huge pages", text, ""};
}

Finding CheckCores(int usable) {
  if (usable < 2) {
    return {Level::kWarn,
            "cores",
            "1 usable: ranks and agent take turns on it",
            "give the node at least one core more than it has ranks"};
  }
  return {Level::kOk, "cores", absl::StrCat(usable, " usable"), ""};
}

Finding CheckGpu(const std::string& root) {
  const std::string version = FirstLine(root + "/proc/driver/nvidia/version");
  if (version.empty()) {
    return {Level::kOk, "GPU", "no NVIDIA driver; gradients are summed in host memory", ""};
  }
  int count = 0;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/proc/driver/nvidia/gpus", ignored)) {
    count += entry.is_directory() ? 1 : 0;
  }
  return {Level::kOk,
          "GPU",
          absl::StrCat(
              count, " with ", version, "; this release sums in host memory: copy gradients there"),
          ""};
}

std::uint64_t MemlockLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur;
}

std::uint64_t PermittedOpenFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_max;
}

int UsableCores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace maypole::cli
