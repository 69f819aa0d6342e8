#include "cli/plan/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace maypole::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

collective::PlanRequest Request() {
  collective::PlanRequest request;
  request.bytes = 64 << 20;
  request.ranks = 4;
  request.link = {.latency_seconds = 5e-6, .bytes_per_second = 25e9 / 8};
  return request;
}

TEST(PlanText, ShowsTheTimeOfEveryAlgorithm) {
  const std::string text = PlanText(Request(), MakePlan(Request()));
  EXPECT_THAT(text, HasSubstr("32.24 ms"));   // ring
  EXPECT_THAT(text, HasSubstr("128.88 ms"));  // naive
  EXPECT_THAT(text, HasSubstr("Recommended: "));
  EXPECT_THAT(text, Not(HasSubstr("A step:")));
}

TEST(PlanText, ShowsTheStepWhenComputeIsGiven) {
  collective::PlanRequest request = Request();
  request.compute_seconds = 0.12;
  EXPECT_THAT(PlanText(request, MakePlan(request)), HasSubstr("A step: compute 120.00 ms"));
}

TEST(PlanJson, HasTheKeysThatOthersRelyOn) {
  collective::PlanRequest request = Request();
  request.compute_seconds = 0.12;
  const auto json = nlohmann::json::parse(PlanJson(MakePlan(request)));
  const auto& ring = json.at("algorithms").at(0);
  EXPECT_EQ(ring.at("name"), "ring");
  EXPECT_EQ(ring.at("rounds"), 6);
  EXPECT_EQ(ring.at("bytes_per_rank"), 3 * (64 << 20) / 2);
  EXPECT_NEAR(ring.at("time_us").get<double>(), 32242, 1);
  EXPECT_GT(ring.at("effective_bandwidth_bytes_per_s").get<double>(), 4e9);
  EXPECT_TRUE(json.contains("recommended"));
  for (const char* key : {"compute_us", "comm_us", "serial_us", "overlapped_us"}) {
    EXPECT_TRUE(json.at("step").contains(key)) << key;
  }
}

}  // namespace
}  // namespace maypole::cli
