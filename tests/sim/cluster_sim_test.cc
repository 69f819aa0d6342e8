// Whole clusters by seed. MAYPOLE_SIM_SEED=n replays one; MAYPOLE_SIM_RUNS=n runs so many fresh
// ones.

#include <cstdlib>
#include <iostream>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sim/sim_cluster.h"

namespace maypole::sim {
namespace {

using testing::IsEmpty;

constexpr std::uint64_t kFixedSeeds = 1000;
constexpr std::uint64_t kFreshSeeds = 100;

std::uint64_t NumberFrom(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

SimCluster::Outcomes RunSeed(std::uint64_t seed) {
  SimCluster cluster(seed);
  cluster.Run();
  EXPECT_THAT(cluster.violations(), IsEmpty()) << cluster.Describe();
  return cluster.outcomes();
}

TEST(ClusterSimTest, FixedSeedsKeepThePromises) {
  if (std::getenv("MAYPOLE_SIM_SEED") != nullptr) {
    RunSeed(NumberFrom("MAYPOLE_SIM_SEED", 0));
    return;
  }
  SimCluster::Outcomes all;
  for (std::uint64_t seed = 0; seed < kFixedSeeds; ++seed) {
    for (const auto& [code, count] : RunSeed(seed)) {
      all[code] += count;
    }
  }
  // The runs are of use only if they get to where things can go wrong.
  EXPECT_GT(all[ErrorCode::kOk], 10 * kFixedSeeds);
  EXPECT_GT(all[ErrorCode::kMismatch], kFixedSeeds);
  EXPECT_GT(all[ErrorCode::kPeerLost], kFixedSeeds);
  EXPECT_GT(all[ErrorCode::kTimeout], kFixedSeeds / 10);
  EXPECT_GT(all[ErrorCode::kResourceExhausted], kFixedSeeds / 10);
  for (const auto& [code, count] : all) {
    RecordProperty(std::string(Name(code)), std::to_string(count));
    std::cout << Name(code) << ": " << count << "\n";
  }
}

// Agents fall silent one after the other, and to some of the others only.
TEST(ClusterSimTest, TwoSilencesKeepThePromises) {
  for (std::uint64_t seed = 0; seed < kFixedSeeds / 10; ++seed) {
    SimCluster cluster(seed, {.with_errors = false, .faults = {Fault::kCutPair, Fault::kCutPair}});
    cluster.Run();
    EXPECT_THAT(cluster.violations(), IsEmpty()) << cluster.Describe();
  }
}

TEST(ClusterSimTest, FreshSeedsKeepThePromises) {
  if (std::getenv("MAYPOLE_SIM_SEED") != nullptr) {
    GTEST_SKIP() << "one seed is replayed";
  }
  const std::uint64_t first = std::uint64_t{std::random_device()()} << 20;
  const std::uint64_t runs = NumberFrom("MAYPOLE_SIM_RUNS", kFreshSeeds);
  for (std::uint64_t i = 0; i < runs; ++i) {
    RunSeed(first + i);
  }
}

}  // namespace
}  // namespace maypole::sim
