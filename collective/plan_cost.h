// What training will pay for its gradients, before it runs: the calculation behind `maypole plan`.
//
// Pure. Times come from cost.h, and on request from simulate.h as well: alone on links that deliver
// what was given, without the time of sums. Units: bytes, seconds.
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
  LinkModel link;                  // of a node, each way; with racks, uplink.members nodes are one
  std::optional<LinkModel> inner;  // of a rank inside its node; without it the node's sum is free
  Algorithm algorithm = Algorithm::kAuto;  // kAuto: the fastest
  double bytes_on_wire = 1;                // between nodes, per byte: 0.25 for f32 sent as int8
  std::optional<double> compute_seconds;   // forward and backward of a step
  double backward_share = 2.0 / 3;         // of that, in which gradients become ready
  std::uint64_t bucket_bytes = 25 << 20;   // > 0; gradients are sent in buckets of this size
  std::uint64_t slice_bytes = kDefaultSliceBytes;
  bool simulate = false;  // also run the schedules of the nodes
};

struct PlannedAlgorithm {
  Algorithm algorithm = Algorithm::kRing;
  Cost cost;                       // of the whole gradient at once; bytes are those of a node
  double effective_bandwidth = 0;  // 2N/T
  // Between the nodes, by simulate.h; absent where not asked for, or where the schedules have more
  // than 5 million steps.
  std::optional<double> simulated_seconds;
};

struct PlannedStep {
  Algorithm algorithm = Algorithm::kRing;  // for a bucket
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
  std::vector<PlannedAlgorithm> algorithms;  // in order of Algorithm; hierarchical with racks only
  Algorithm recommended = Algorithm::kRing;  // or what was asked for
  std::string reason;
  std::string bottleneck;  // what binds the step, or the all-reduce without compute; and how much
  std::optional<PlannedStep> step;
  std::vector<Advice> advice;  // largest gain first; gains below 1 % are left out
};

// What is wrong with the request, with the value and the allowed form; empty if nothing.
std::string PlanProblem(const PlanRequest& request);

// PlanProblem(request) is empty.
Plan MakePlan(const PlanRequest& request);

// The pipeline of a step: bucket k of n is ready when (k+1)/n of the backward pass is done, and
// sent when the buckets before it have been.
PlannedStep PlanStep(const PlanRequest& request);

// The algorithms that a plan for the request compares.
std::vector<Algorithm> PlannedAlgorithms(const PlanRequest& request);

}  // namespace maypole::collective
