#include "collective/plan_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/check.h"

namespace maypole::collective {
namespace {

constexpr std::uint64_t kBucketsMax = 1'000'000;
constexpr double kWorthSaying = 0.01;  // of the time that it shortens
// Of equally fast ones the earlier in this list; naive is only there to be compared with.
constexpr Algorithm kPreference[] = {Algorithm::kRing,
                                     Algorithm::kHalvingDoubling,
                                     Algorithm::kDoubleTree,
                                     Algorithm::kTree,
                                     Algorithm::kDirect};
constexpr double kTie = 0.03;

Cost CostOf(const PlanRequest& request, Algorithm algorithm, double bytes) {
  return PredictAllReduce(algorithm,
                          static_cast<std::uint64_t>(std::llround(bytes * request.bytes_on_wire)),
                          request.ranks / request.ranks_per_node,
                          request.link,
                          request.slice_bytes);
}

Algorithm Recommend(const PlanRequest& request) {
  const auto seconds = [&](Algorithm algorithm) {
    return CostOf(request, algorithm, static_cast<double>(request.bytes)).seconds;
  };
  double fastest = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : kPreference) {
    fastest = std::min(fastest, seconds(algorithm));
  }
  return *std::find_if(std::begin(kPreference), std::end(kPreference), [&](Algorithm algorithm) {
    return seconds(algorithm) <= fastest * (1 + kTie);
  });
}

// What a user waits for.
double SecondsOf(const PlanRequest& request) {
  const Algorithm algorithm = Recommend(request);
  return request.compute_seconds
             ? PlanStep(request, algorithm).overlapped_seconds
             : CostOf(request, algorithm, static_cast<double>(request.bytes)).seconds;
}

std::vector<Advice> Advise(const PlanRequest& request) {
  const double now = SecondsOf(request);
  std::vector<Advice> advice;
  const auto consider = [&](std::string what, const PlanRequest& changed) {
    const double gain = now - SecondsOf(changed);
    if (gain > kWorthSaying * now) {
      advice.push_back({std::move(what), gain});
    }
  };
  PlanRequest changed = request;
  changed.link.bytes_per_second *= 2;
  consider("twice the bandwidth", changed);
  changed = request;
  changed.link.latency_seconds /= 2;
  consider("half the latency", changed);
  if (request.bytes_on_wire > 0.25) {
    changed = request;
    changed.bytes_on_wire = 0.25;
    consider("compression to a quarter", changed);
  }
  changed = request;
  changed.bucket_bytes *= 2;
  consider("buckets of twice the size", changed);
  changed = request;
  changed.bucket_bytes = std::max<std::uint64_t>(1, changed.bucket_bytes / 2);
  consider("buckets of half the size", changed);
  if (request.ranks / request.ranks_per_node % 2 == 0) {
    changed = request;
    changed.ranks_per_node *= 2;
    consider("twice the ranks per node, on half the nodes", changed);
  }
  std::stable_sort(advice.begin(), advice.end(), [](const Advice& left, const Advice& right) {
    return left.gain_seconds > right.gain_seconds;
  });
  return advice;
}

std::string ReasonFor(const PlanRequest& request, Algorithm algorithm) {
  const std::uint32_t nodes = request.ranks / request.ranks_per_node;
  if (nodes == 1) {
    return "one node needs no network";
  }
  PlanRequest no_latency = request;
  no_latency.link.latency_seconds = 0;
  no_latency.link.message_seconds = 0;
  const double bytes = static_cast<double>(request.bytes);
  const double bandwidth = CostOf(no_latency, algorithm, bytes).seconds;
  const double all = CostOf(request, algorithm, bytes).seconds;
  return std::string(Name(algorithm)) + " is the fastest among " + std::to_string(nodes) +
         " nodes, or within 3 % of it; " + (bandwidth * 2 >= all ? "bandwidth" : "latency") +
         " is the bottleneck";
}

}  // namespace

std::string PlanProblem(const PlanRequest& request) {
  if (request.ranks == 0) {
    return "ranks is 0; it must be at least 1";
  }
  if (request.ranks_per_node == 0 || request.ranks % request.ranks_per_node != 0) {
    return "ranks-per-node is " + std::to_string(request.ranks_per_node) + "; it must divide the " +
           std::to_string(request.ranks) + " ranks";
  }
  if (!(request.link.bytes_per_second > 0) || std::isinf(request.link.bytes_per_second)) {
    return "bandwidth is " + std::to_string(request.link.bytes_per_second) +
           " bytes/s; it must be more than 0";
  }
  if (!(request.link.latency_seconds >= 0 && request.link.message_seconds >= 0)) {
    return "latency is " + std::to_string(request.link.latency_seconds) +
           " s; it must not be negative";
  }
  if (!(request.bytes_on_wire > 0)) {
    return "bytes on the wire per byte are " + std::to_string(request.bytes_on_wire) +
           "; they must be more than 0";
  }
  if (request.bucket_bytes == 0 || request.slice_bytes == 0) {
    return "bucket and slice size must be more than 0 bytes";
  }
  if (request.bytes / request.bucket_bytes > kBucketsMax) {
    return "bucket is " + std::to_string(request.bucket_bytes) + " bytes; more than " +
           std::to_string(kBucketsMax) + " buckets are not planned";
  }
  if (request.compute_seconds && !(*request.compute_seconds >= 0)) {
    return "compute is " + std::to_string(*request.compute_seconds) + " s; it must not be negative";
  }
  if (!(request.backward_share >= 0 && request.backward_share <= 1)) {
    return "the backward share is " + std::to_string(request.backward_share) +
           "; it must be between 0 and 1";
  }
  return "";
}

PlannedStep PlanStep(const PlanRequest& request, Algorithm algorithm) {
  PlannedStep step;
  step.compute_seconds = request.compute_seconds.value_or(0);
  const std::uint64_t buckets =
      request.bytes == 0 ? 0 : (request.bytes - 1) / request.bucket_bytes + 1;
  const double backward = step.compute_seconds * request.backward_share;
  const double forward = step.compute_seconds - backward;
  double sent = 0;
  for (std::uint64_t bucket = 0; bucket < buckets; ++bucket) {
    const std::uint64_t done =
        bucket + 1 == buckets ? request.bytes : (bucket + 1) * request.bucket_bytes;
    const auto bytes = static_cast<double>(done - bucket * request.bucket_bytes);
    const double ready =
        forward + backward * static_cast<double>(done) / static_cast<double>(request.bytes);
    const double duration = CostOf(request, algorithm, bytes).seconds;
    sent = std::max(sent, ready) + duration;
    step.comm_seconds += duration;
  }
  step.serial_seconds = step.compute_seconds + step.comm_seconds;
  step.overlapped_seconds = std::max(step.compute_seconds, sent);
  step.exposed_seconds = step.overlapped_seconds - step.compute_seconds;
  return step;
}

Plan MakePlan(const PlanRequest& request) {
  MAYPOLE_CHECK(PlanProblem(request).empty());
  Plan plan;
  for (const Algorithm algorithm : kAlgorithms) {
    if (algorithm == Algorithm::kHierarchical) {
      continue;
    }
    const Cost cost = CostOf(request, algorithm, static_cast<double>(request.bytes));
    plan.algorithms.push_back({algorithm, cost, EffectiveBandwidth(request.bytes, cost.seconds)});
  }
  plan.recommended = Recommend(request);
  plan.reason = ReasonFor(request, plan.recommended);
  if (request.compute_seconds) {
    plan.step = PlanStep(request, plan.recommended);
  }
  plan.advice = Advise(request);
  return plan;
}

}  // namespace maypole::collective
