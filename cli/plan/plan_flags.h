// What a person asks `maypole plan`, and the request that it means. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "collective/plan_cost.h"

namespace maypole::cli {

// As written; empty: not given.
struct PlanFlags {
  std::string bytes;
  std::string params;  // 7e9, 7B, 350M
  std::string dtype = "f32";
  std::uint32_t ranks = 0;
  std::uint32_t ranks_per_node = 1;
  std::string bandwidth;
  std::string latency;  // 5us, if it is not measured either
  std::string message;  // likewise 0
  std::uint32_t rails = 1;
  double slowest = 1;
  std::string inner_bandwidth;
  std::string inner_latency = "1us";
  std::uint32_t nodes_per_rack = 0;
  std::string uplink;
  std::string uplink_latency = "0";
  std::string compute;
  std::string bucket = "25MiB";
  std::string slice = "256KiB";
  std::string compression = "none";
  std::string algorithm = "auto";
  std::string sweep;
  bool simulate = false;
  std::optional<collective::LinkModel> measured;  // for what is not given of a node's link
};

// A refusal names the option, its value and the allowed form.
absl::StatusOr<collective::PlanRequest> RequestOf(const PlanFlags& flags);

}  // namespace maypole::cli
