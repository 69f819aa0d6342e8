#include "collective/plan_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "collective/hierarchical.h"
#include "collective/simulate.h"
#include "collective/tuning.h"
#include "common/check.h"

namespace maypole::collective {
namespace {

constexpr std::uint64_t kBucketsMax = 1'000'000;
constexpr double kWorthSaying = 0.01;  // of the time that it shortens
constexpr double kEndless = 1e30;      // bytes/s
constexpr double kOfBoth = 0.5;        // of what two save together: one that saves more binds
constexpr double kStepsMost = 5e6;
constexpr std::uint32_t kWindow = 2;  // messages to one peer, as the agents have by default

std::uint32_t NodesOf(const PlanRequest& request) {
  return request.ranks / request.ranks_per_node;
}

// Groups of nodes that share one.
bool HasUplinks(const PlanRequest& request) {
  const std::uint32_t rack = request.link.uplink.members;
  return rack > 0 && rack < NodesOf(request);
}

// Groups of several, among which a hierarchy is something else than a flat algorithm.
bool HasRacks(const PlanRequest& request) {
  return request.link.uplink.members > 1 && HasUplinks(request);
}

struct AcrossRacks {
  Algorithm algorithm = Algorithm::kRing;
  Cost cost = {.seconds = std::numeric_limits<double>::infinity()};
};

// A ring inside every rack, and across them what is fastest.
AcrossRacks PlanAcrossRacks(const PlanRequest& request, std::uint64_t bytes) {
  const UplinkModel& uplink = request.link.uplink;
  LinkModel inside = request.link;
  inside.uplink = {};
  LinkModel outside = inside;
  outside.latency_seconds += uplink.latency_seconds;
  outside.bytes_per_second =
      std::min(inside.bytes_per_second, uplink.bytes_per_second / (uplink.members * inside.rails));
  AcrossRacks best;
  for (const Algorithm across : kPreference) {
    if (across == Algorithm::kHierarchical) {
      continue;
    }
    const LevelModel levels[] = {{uplink.members, Algorithm::kRing, inside},
                                 {NodesOf(request) / uplink.members, across, outside}};
    const Cost cost = PredictHierarchical(levels, bytes, request.slice_bytes);
    if (cost.seconds < best.cost.seconds * (1 - kTie)) {
      best = {across, cost};
    }
  }
  return best;
}

std::uint64_t OnWire(const PlanRequest& request, std::uint64_t bytes) {
  return static_cast<std::uint64_t>(
      std::llround(static_cast<double>(bytes) * request.bytes_on_wire));
}

Cost CostOf(const PlanRequest& request, Algorithm algorithm, std::uint64_t bytes) {
  const std::uint64_t on_wire = OnWire(request, bytes);
  Cost cost = algorithm == Algorithm::kHierarchical
                  ? PlanAcrossRacks(request, on_wire).cost
                  : PredictAllReduce(
                        algorithm, on_wire, NodesOf(request), request.link, request.slice_bytes);
  if (request.inner) {
    const Cost inside = PredictAllReduce(
        Algorithm::kDirect, bytes, request.ranks_per_node, *request.inner, request.slice_bytes);
    cost.rounds += inside.rounds;
    cost.seconds += inside.seconds;
  }
  return cost;
}

Network NetworkOf(const PlanRequest& request) {
  Network network = {.link = request.link};
  network.slowness = {request.link.slowest};
  if (HasUplinks(request)) {
    const UplinkModel& uplink = request.link.uplink;
    network.uplink = {.latency_seconds = uplink.latency_seconds,
                      .bytes_per_second = uplink.bytes_per_second};
    for (std::uint32_t node = 0; node < NodesOf(request); ++node) {
      network.group_of.push_back(node / uplink.members);
    }
  }
  return network;
}

// Of bytes as elements; nothing if it would take too long.
std::optional<double> SimulatedSeconds(const PlanRequest& request, Algorithm algorithm) {
  Shape shape = {.members = NodesOf(request),
                 .elements = OnWire(request, request.bytes),
                 .slice_elements = request.slice_bytes};
  if (algorithm == Algorithm::kHierarchical) {
    const std::uint32_t rack = request.link.uplink.members;
    shape.levels =
        EvenLevels({rack, shape.members / rack},
                   {Algorithm::kRing, PlanAcrossRacks(request, shape.elements).algorithm});
  }
  const Network network = NetworkOf(request);
  const double members = FindSymmetry(algorithm, shape, network).period;
  const Cost cost = CostOf(request, algorithm, request.bytes);
  const double messages =
      static_cast<double>(cost.bytes_sent) / static_cast<double>(request.slice_bytes) +
      2.0 * shape.members;
  if (2 * members * messages > kStepsMost) {
    return std::nullopt;
  }
  const Simulation simulation = SimulateAllReduce(
      algorithm, shape, network, {.window = kWindow, .accumulator_bytes = 1, .result_bytes = 1});
  MAYPOLE_CHECK(simulation.finished);
  return simulation.seconds;
}

Algorithm Recommend(const PlanRequest& request, std::uint64_t bytes) {
  if (request.algorithm != Algorithm::kAuto) {
    return request.algorithm;
  }
  std::vector<std::pair<Algorithm, double>> candidates;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : kPreference) {
    if (algorithm != Algorithm::kHierarchical || HasRacks(request)) {
      candidates.emplace_back(algorithm, CostOf(request, algorithm, bytes).seconds);
      fastest = std::min(fastest, candidates.back().second);
    }
  }
  return std::find_if(
             candidates.begin(),
             candidates.end(),
             [&](const auto& candidate) { return candidate.second <= fastest * (1 + kTie); })
      ->first;
}

// What a user waits for.
double SecondsOf(const PlanRequest& request) {
  return request.compute_seconds
             ? PlanStep(request).overlapped_seconds
             : CostOf(request, Recommend(request, request.bytes), request.bytes).seconds;
}

std::string Amount(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.4g %s", value, unit);
  return text;
}

std::string Rate(double bytes_per_second) {
  return Amount(bytes_per_second * 8 / 1e9, "Gbit/s");
}

// Considers changes of one request.
class Adviser {
 public:
  explicit Adviser(const PlanRequest& request) : request_(request), now_(SecondsOf(request)) {}

  template <typename Change>
  void Consider(const std::string& what, Change change) {
    PlanRequest changed = request_;
    change(changed);
    const double gain = now_ - SecondsOf(changed);
    if (gain > kWorthSaying * now_) {
      advice_.push_back({what, gain});
    }
  }

  std::vector<Advice> Sorted() {
    std::stable_sort(advice_.begin(), advice_.end(), [](const Advice& left, const Advice& right) {
      return left.gain_seconds > right.gain_seconds;
    });
    return std::move(advice_);
  }

 private:
  const PlanRequest& request_;
  const double now_;
  std::vector<Advice> advice_;
};

void AdviseLinks(const PlanRequest& request, Adviser& adviser) {
  const LinkModel& link = request.link;
  adviser.Consider("twice the bandwidth, " + Rate(2 * link.bytes_per_second) + " per link",
                   [](PlanRequest& changed) { changed.link.bytes_per_second *= 2; });
  adviser.Consider("half the latency, " + Amount(link.latency_seconds / 2 * 1e6, "us"),
                   [](PlanRequest& changed) { changed.link.latency_seconds /= 2; });
  adviser.Consider("all nodes as fast as most",
                   [](PlanRequest& changed) { changed.link.slowest = 1; });
  adviser.Consider(std::to_string(2 * link.rails) + " rails per node",
                   [](PlanRequest& changed) { changed.link.rails *= 2; });
  if (HasUplinks(request)) {
    const std::string uplinks = Rate(2 * link.uplink.bytes_per_second);
    adviser.Consider("uplinks of " + uplinks,
                     [](PlanRequest& changed) { changed.link.uplink.bytes_per_second *= 2; });
    adviser.Consider("uplinks of " + uplinks + " and links of " + Rate(2 * link.bytes_per_second),
                     [](PlanRequest& changed) {
                       changed.link.uplink.bytes_per_second *= 2;
                       changed.link.bytes_per_second *= 2;
                     });
    if (link.uplink.members % 2 == 0) {
      adviser.Consider("fewer ranks per link: half the nodes behind each uplink",
                       [](PlanRequest& changed) { changed.link.uplink.members /= 2; });
    }
  }
  if (request.inner) {
    adviser.Consider("twice the bandwidth inside the nodes",
                     [](PlanRequest& changed) { changed.inner->bytes_per_second *= 2; });
  }
}

// The best of sizes by powers of two.
void AdviseBuckets(const PlanRequest& request, Adviser& adviser) {
  std::uint64_t best = request.bucket_bytes;
  double fastest = SecondsOf(request);
  for (int power = -5; power <= 5; ++power) {
    PlanRequest changed = request;
    changed.bucket_bytes =
        power < 0 ? request.bucket_bytes >> -power : request.bucket_bytes << power;
    if (PlanProblem(changed).empty() && SecondsOf(changed) < fastest * (1 - kWorthSaying / 2)) {
      fastest = SecondsOf(changed);
      best = changed.bucket_bytes;
    }
  }
  const double mib = static_cast<double>(best) / (1 << 20);
  adviser.Consider(
      (best > request.bucket_bytes ? "larger buckets, " : "smaller buckets, ") + Amount(mib, "MiB"),
      [best](PlanRequest& changed) { changed.bucket_bytes = best; });
}

std::vector<Advice> Advise(const PlanRequest& request) {
  Adviser adviser(request);
  AdviseLinks(request, adviser);
  if (request.bytes_on_wire > 0.25) {
    adviser.Consider("compression to a quarter",
                     [](PlanRequest& changed) { changed.bytes_on_wire = 0.25; });
  }
  if (request.compute_seconds) {
    AdviseBuckets(request, adviser);
  }
  if (NodesOf(request) % 2 == 0 && request.link.uplink.members % 2 == 0) {
    adviser.Consider("twice the ranks per node, on half the nodes", [](PlanRequest& changed) {
      changed.ranks_per_node *= 2;
      changed.link.uplink.members /= 2;
    });
  }
  if (request.algorithm != Algorithm::kAuto) {
    PlanRequest open = request;
    open.algorithm = Algorithm::kAuto;
    adviser.Consider(std::string(Name(Recommend(open, request.bytes))) + " in place of " +
                         std::string(Name(request.algorithm)),
                     [](PlanRequest& changed) { changed.algorithm = Algorithm::kAuto; });
  }
  return adviser.Sorted();
}

// The part of the time that would be saved by links without a limit of one kind; the largest binds.
// Where links and uplinks are about equally narrow, only both together would save much.
std::string BottleneckOf(const PlanRequest& request) {
  if (NodesOf(request) == 1 && !request.inner) {
    return "none (one node needs no network)";
  }
  const double now = SecondsOf(request);
  if (now == 0) {
    return "none (there is nothing to send)";
  }
  std::string binds;
  double largest = 0;
  const auto consider = [&](const std::string& what, const PlanRequest& without, double most = 1) {
    const double saved = (now - SecondsOf(without)) / now;
    if (saved * most > largest) {
      largest = saved;
      binds = what;
    }
  };
  PlanRequest without = request;
  without.link.bytes_per_second = kEndless;
  consider("the bandwidth of the nodes' links", without);
  without = request;
  without.link.latency_seconds = without.link.message_seconds = 0;
  without.link.uplink.latency_seconds = 0;
  consider("the latency between nodes", without);
  without = request;
  without.link.uplink.bytes_per_second = kEndless;
  consider("the uplinks of the racks", without);
  without = request;
  without.inner.reset();
  consider("the links inside the nodes", without);
  without = request;
  without.link.bytes_per_second = without.link.uplink.bytes_per_second = kEndless;
  consider("the bandwidth of links and uplinks alike", without, kOfBoth);
  if (largest < kWorthSaying) {
    return "compute (the network hides behind it)";
  }
  char text[96];
  std::snprintf(text,
                sizeof(text),
                "%s (%.0f %% of %s)",
                binds.c_str(),
                100 * largest,
                request.compute_seconds ? "the step" : "the time");
  return text;
}

std::string ReasonFor(const PlanRequest& request) {
  const std::uint32_t nodes = NodesOf(request);
  if (request.algorithm != Algorithm::kAuto) {
    return "asked for";
  }
  if (nodes == 1) {
    return "one node needs no network";
  }
  return "the fastest among " + std::to_string(nodes) + " nodes, or within 3 % of it";
}

std::string LinkProblem(const std::string& name, const LinkModel& link) {
  if (!(link.bytes_per_second > 0) || std::isinf(link.bytes_per_second)) {
    return name + "bandwidth is " + std::to_string(link.bytes_per_second) +
           " bytes/s; it must be more than 0";
  }
  if (!(link.latency_seconds >= 0 && link.message_seconds >= 0)) {
    return name + "latency is " +
           std::to_string(std::min(link.latency_seconds, link.message_seconds)) +
           " s; it must not be negative";
  }
  if (link.rails == 0) {
    return "rails is 0; it must be at least 1";
  }
  if (!(link.slowest >= 1) || std::isinf(link.slowest)) {
    return "slowest is " + std::to_string(link.slowest) + "; it must be at least 1";
  }
  return "";
}

std::string RacksProblem(const PlanRequest& request) {
  const UplinkModel& uplink = request.link.uplink;
  if (request.algorithm == Algorithm::kHierarchical && !HasRacks(request)) {
    return "algorithm is hierarchical; it needs nodes-per-rack and uplink, and several racks";
  }
  if (uplink.members == 0) {
    return "";
  }
  if (NodesOf(request) % uplink.members != 0) {
    return "nodes-per-rack is " + std::to_string(uplink.members) + "; it must divide the " +
           std::to_string(NodesOf(request)) + " nodes";
  }
  if (!(uplink.bytes_per_second > 0) || !(uplink.latency_seconds >= 0)) {
    return "uplink is " + std::to_string(uplink.bytes_per_second) +
           " bytes/s; it must be more than 0, and its latency not negative";
  }
  return "";
}

std::string StepProblem(const PlanRequest& request) {
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

}  // namespace

std::string PlanProblem(const PlanRequest& request) {
  if (request.ranks == 0) {
    return "ranks is 0; it must be at least 1";
  }
  if (request.ranks_per_node == 0 || request.ranks % request.ranks_per_node != 0) {
    return "ranks-per-node is " + std::to_string(request.ranks_per_node) + "; it must divide the " +
           std::to_string(request.ranks) + " ranks";
  }
  for (const std::string& problem :
       {LinkProblem("", request.link),
        request.inner ? LinkProblem("inner ", *request.inner) : std::string(),
        RacksProblem(request),
        StepProblem(request)}) {
    if (!problem.empty()) {
      return problem;
    }
  }
  return "";
}

PlannedStep PlanStep(const PlanRequest& request) {
  PlannedStep step;
  step.compute_seconds = request.compute_seconds.value_or(0);
  const std::uint64_t full = std::min(request.bucket_bytes, request.bytes);
  const std::uint64_t buckets = request.bytes == 0 ? 0 : (request.bytes - 1) / full + 1;
  const std::uint64_t rest = buckets == 0 ? 0 : request.bytes - (buckets - 1) * full;
  const double backward = step.compute_seconds * request.backward_share;
  const double forward = step.compute_seconds - backward;
  step.algorithm = Recommend(request, full);
  const double full_seconds = CostOf(request, step.algorithm, full).seconds;
  const double rest_seconds = CostOf(request, step.algorithm, rest).seconds;
  double sent = 0;
  for (std::uint64_t bucket = 0; bucket < buckets; ++bucket) {
    const bool last = bucket + 1 == buckets;
    const std::uint64_t done = last ? request.bytes : (bucket + 1) * full;
    const double ready =
        forward + backward * static_cast<double>(done) / static_cast<double>(request.bytes);
    const double duration = last ? rest_seconds : full_seconds;
    sent = std::max(sent, ready) + duration;
    step.comm_seconds += duration;
  }
  step.serial_seconds = step.compute_seconds + step.comm_seconds;
  step.overlapped_seconds = std::max(step.compute_seconds, sent);
  step.exposed_seconds = step.overlapped_seconds - step.compute_seconds;
  return step;
}

std::vector<Algorithm> PlannedAlgorithms(const PlanRequest& request) {
  std::vector<Algorithm> planned;
  std::copy_if(kAlgorithms.begin(),
               kAlgorithms.end(),
               std::back_inserter(planned),
               [&](Algorithm algorithm) {
                 return algorithm != Algorithm::kHierarchical || HasRacks(request);
               });
  return planned;
}

Plan MakePlan(const PlanRequest& request) {
  MAYPOLE_CHECK(PlanProblem(request).empty());
  Plan plan;
  for (const Algorithm algorithm : PlannedAlgorithms(request)) {
    const Cost cost = CostOf(request, algorithm, request.bytes);
    plan.algorithms.push_back(
        {algorithm,
         cost,
         EffectiveBandwidth(request.bytes, cost.seconds),
         request.simulate ? SimulatedSeconds(request, algorithm) : std::nullopt});
  }
  plan.recommended = Recommend(request, request.bytes);
  plan.reason = ReasonFor(request);
  if (request.compute_seconds) {
    plan.step = PlanStep(request);
  }
  plan.bottleneck = BottleneckOf(request);
  plan.advice = Advise(request);
  return plan;
}

}  // namespace maypole::collective
