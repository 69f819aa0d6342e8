// What an agent can be told. Each field is a flag, an environment variable and a key of the
// --config file: see agent/main.cc.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/engine/job.h"
#include "agent/memory/host_memory.h"
#include "common/time.h"

namespace maypole::agent {

struct AgentOptions {
  CoreOptions core;
  std::string coordinator = "127.0.0.1:7700";
  std::string socket = "/run/maypole/agent.sock";
  std::string interface = "auto";  // auto: the one that leads to the coordinator
  std::string ucx_tls = "auto";
  std::uint16_t peer_port = 7710;
  std::string http_listen = "0.0.0.0";
  std::uint16_t http_port = 7711;
  std::string ports_file;
  std::vector<std::pair<std::string, std::string>> labels;  // of the node, outermost first
  int reduce_threads = 2;
  Duration spin = std::chrono::microseconds(20);
  std::uint64_t segment_bytes_max = std::uint64_t{64} << 30;
  HostMemory::Options memory;
};

}  // namespace maypole::agent
