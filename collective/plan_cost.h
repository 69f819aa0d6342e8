// What training will pay for its gradients, before it runs: the calculation behind `maypole plan`.
//
// Pure. Times come from cost.h: alone on links that deliver what was given, without the time of
// sums. Units: bytes, seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::collective {

struct PlanRequest {
  std::uint64_t bytes = 0;           // of one gradient, as a rank holds it
  std::uint32_t ranks = 1;           // > 0
  std::uint32_t ranks_per_node = 1;  // > 0, divides ranks; a node sums its ranks before it sends
  LinkModel link;                    // of a node, each way
  double bytes_on_wire = 1;          // per byte of gradient: 0.25 for f32 sent as int8
  std::optional<double> compute_seconds;  // forward and backward of a step
  double backward_share = 2.0 / 3;        // of that, in which gradients become ready
  std::uint64_t bucket_bytes = 25 << 20;  // > 0; gradients are sent in buckets of this size
  std::uint64_t slice_bytes = kDefaultSliceBytes;
};

struct PlannedAlgorithm {
  Algorithm algorithm = Algorithm::kRing;
  Cost cost;                       // of the whole gradient at once
  double effective_bandwidth = 0;  // 2N/T
};

struct PlannedStep {
  double compute_seconds = 0;
  double comm_seconds = 0;        // of all buckets
  double serial_seconds = 0;      // first compute, then send
  double overlapped_seconds = 0;  // buckets are sent while the backward pass goes on
  double exposed_seconds = 0;     // overlapped - compute: what training waits for
};

struct Advice {
  std::string what;         // "twice the bandwidth"
  double gain_seconds = 0;  // of a step, or of the all-reduce without compute
};

struct Plan {
  std::vector<PlannedAlgorithm> algorithms;  // flat ones, in order of Algorithm
  Algorithm recommended = Algorithm::kRing;
  std::string reason;
  std::optional<PlannedStep> step;
  std::vector<Advice> advice;  // largest gain first; gains below 1 % are left out
};

// What is wrong with the request, with the value and the allowed form; empty if nothing.
std::string PlanProblem(const PlanRequest& request);

// PlanProblem(request) is empty.
Plan MakePlan(const PlanRequest& request);

// The pipeline of a step: bucket k of n is ready when (k+1)/n of the backward pass is done, and
// sent when the buckets before it have been.
PlannedStep PlanStep(const PlanRequest& request, Algorithm algorithm);

}  // namespace maypole::collective
