// Checks of kernel, limits and memory.
//
// `root` stands before every path of /proc and /sys that is read: "" for this machine, a folder in
// tests.
#pragma once

#include <cstdint>
#include <string>

#include "cli/doctor/finding.h"

namespace maypole::cli {

// Tries what an agent does with every segment: a memfd of 1 GiB (no page of it is touched), sealed.
Finding CheckMemfd();

// Pinned memory: only RDMA needs it. Limits are in bytes; pass RLIM_INFINITY's value for
// "unlimited".
Finding CheckMemlock(std::uint64_t limit, bool has_rdma);
// `permitted`: the hard limit, which our daemons take.
Finding CheckOpenFiles(std::uint64_t permitted);
Finding CheckDevShm();
Finding CheckHugePages(const std::string& root);
Finding CheckCores(int usable);
Finding CheckGpu(const std::string& root);

// The limits of this process, in bytes and files.
std::uint64_t MemlockLimit();
std::uint64_t PermittedOpenFiles();
int UsableCores();

// First line of a file without its newline; empty if there is none.
std::string FirstLine(const std::string& path);

}  // namespace maypole::cli
