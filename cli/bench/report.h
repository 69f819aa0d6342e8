// From what the ranks wrote down to rows of a table or JSON. Pure.
//
// Definitions are nccl-tests': algbw = bytes / time, busbw = algbw * BusFactor (collective/cost.h),
// which is 2(P-1)/P for all-reduce; bytes are those of one rank's whole buffer. The time of one
// operation is the difference between successive completions of the last rank; `time_us` is the
// median of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/bench/board.h"
#include "cli/bench/plan.h"

namespace maypole::cli {

struct BenchRow {
  std::string collective = "all_reduce";
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string type;
  std::string op;
  std::string algorithm;  // that the agents chose
  std::uint32_t nodes = 0;
  std::uint32_t ranks = 0;
  std::uint64_t iterations = 0;
  double time_us = 0;
  double time_min_us = 0;
  double algbw_bytes_per_s = 0;
  double busbw_bytes_per_s = 0;
  std::optional<std::uint64_t> wrong;  // empty: not checked
  double wire_bytes_per_agent = 0;     // of one operation
  double cpu_s_per_gb = 0;            // of all ranks and agents, per 1e9 bytes of one rank's buffer
  double machine_cpu_s_per_gb = 0;    // of the whole machine, its network stack included
  std::optional<double> model_ratio;  // measured time / predicted; empty without measured links
};

// `cells` as they stand after the timed operations.
BenchRow MakeRow(const BenchPlan& plan,
                 std::uint64_t bytes,
                 std::uint64_t iterations,
                 std::span<const RankCell> cells);

// One line for the driver, and back. FromLine gives nothing for a line of other content.
std::string ToLine(const BenchRow& row);
std::optional<BenchRow> FromLine(std::string_view line);

std::string TableHeader();
std::string TableLine(const BenchRow& row);
std::string ToJson(const std::vector<BenchRow>& rows, const std::string& congestion_control);

}  // namespace maypole::cli
