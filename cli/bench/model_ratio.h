// What the model says of a row, from the links between agents as their coordinator measured them.
//
// Threads: confined. Of() may block for a second, for the coordinator's answer.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "cli/bench/report.h"
#include "collective/cost.h"
#include "collective/schedule.h"

namespace maypole::cli {

class ModelRatio {
 public:
  // HOST:PORT; empty: nobody to ask, and no ratios.
  explicit ModelRatio(std::string coordinator) : coordinator_(std::move(coordinator)) {}

  // Measured time / predicted. Nothing for one node, for a hierarchy, which has no single link to
  // be predicted from, and while no link is measured.
  std::optional<double> Of(const BenchRow& row, collective::Collective collective);

 private:
  // Asks until a link is measured; gives up, with a line on standard error, if nobody answers.
  const std::optional<collective::LinkModel>& Link();

  std::string coordinator_;
  std::optional<collective::LinkModel> link_;
};

}  // namespace maypole::cli
