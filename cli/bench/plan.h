// What a benchmark measures; the same for the driver and its ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collective/schedule.h"
#include "common/dtype.h"

namespace CLI {
class App;
}

namespace maypole::cli {

struct BenchPlan {
  std::vector<std::uint64_t>
      sizes;  // bytes, each a multiple of the element's size; ranks round down to equal blocks
  collective::Collective collective = collective::Collective::kAllReduce;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  collective::Algorithm algorithm = collective::Algorithm::kAuto;
  bool check = false;
  bool overwrite = false;
  bool shared_result = false;
  double seconds = 1;            // aim per size
  double warm_up = 0;            // seconds per size, at least
  std::uint32_t iterations = 0;  // per size; 0: as many as fit into `seconds`, at least 10
};

// The flags behind a plan, as text; they turn into a plan with ToPlan.
struct BenchPlanFlags {
  std::string collective = "all_reduce";
  std::string sizes = "4KiB..256MiB";
  std::uint32_t step = 4;
  std::string dtype = "f32";
  std::string reduction = "sum";
  std::string algorithm = "auto";
  BenchPlan plan;  // the rest
};

void AddBenchPlanFlags(CLI::App& command, BenchPlanFlags& flags);

// The plan, or what is wrong with which flag.
struct PlanOrError {
  BenchPlan plan;
  std::string error;
};

PlanOrError ToPlan(const BenchPlanFlags& flags);

// The flags that give a rank this plan.
std::vector<std::string> ToArguments(const BenchPlan& plan);

}  // namespace maypole::cli
