#include "cli/plan/plan_text.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/svg_plot.h"

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
  EXPECT_THAT(text, HasSubstr("3.12 GB/s"));  // busbw of ring
  EXPECT_THAT(text, HasSubstr("4.16 GB/s"));  // 2N/T of ring
  EXPECT_THAT(text, Not(HasSubstr("A step:")));
  EXPECT_THAT(text, HasSubstr("links (100 % of the time). Give --compute 2s to see"));
}

TEST(PlanText, ShowsTheStepWhenComputeIsGiven) {
  collective::PlanRequest request = Request();
  request.compute_seconds = 0.12;
  EXPECT_THAT(PlanText(request, MakePlan(request)), HasSubstr("A step: compute 120.00 ms"));
  EXPECT_THAT(PlanText(request, MakePlan(request)), Not(HasSubstr("Give --compute")));
}

TEST(PlanText, SaysThatBucketsMayGoAnotherWayThanTheWhole) {
  collective::PlanRequest request = Request();
  request.bytes = 1ULL << 34;
  request.ranks = 512;
  request.compute_seconds = 2;
  const collective::Plan plan = MakePlan(request);
  ASSERT_NE(plan.recommended, plan.step->algorithm);
  EXPECT_THAT(PlanText(request, plan),
              HasSubstr("in buckets of 25MiB, each by halving (the fastest at that size): "));
  request.bytes = 1 << 20;
  EXPECT_THAT(PlanText(request, MakePlan(request)), HasSubstr("communication in one bucket, by "));
}

TEST(PlanText, OfOneNodeNeedsNoNetwork) {
  collective::PlanRequest request = Request();
  request.ranks_per_node = 4;
  const std::string text = PlanText(request, MakePlan(request));
  EXPECT_THAT(text, HasSubstr("over 4 ranks on 1 node;"));
  EXPECT_THAT(text, HasSubstr("Bottleneck: none (one node needs no network).\n"));
}

TEST(PlanText, ShowsTheSimulatedTimeOnRequest) {
  collective::PlanRequest request = Request();
  EXPECT_THAT(PlanText(request, MakePlan(request)), Not(HasSubstr("simulated")));
  request.simulate = true;
  const collective::Plan plan = MakePlan(request);
  EXPECT_THAT(PlanText(request, plan), HasSubstr("simulated"));
  EXPECT_THAT(PlanText(request, plan), Not(HasSubstr("not simulated")));
  collective::PlanRequest large = request;
  large.bytes = 1ULL << 42;
  EXPECT_THAT(PlanText(large, MakePlan(large)), HasSubstr("-: not simulated, as "));
  const auto ring = nlohmann::json::parse(PlanJson(plan)).at("algorithms").at(0);
  EXPECT_NEAR(ring.at("simulated_us").get<double>() / ring.at("time_us").get<double>(), 1, 0.05);
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

PlanFlags SweepFlags(const std::string& sweep) {
  PlanFlags flags;
  flags.bytes = "64MiB";
  flags.ranks = 8;
  flags.bandwidth = "25Gbps";
  flags.sweep = sweep;
  return flags;
}

TEST(SweepText, HasALinePerPoint) {
  const std::string text = SweepText(*SweepOf(SweepFlags("ranks=4..16")));
  EXPECT_THAT(text, HasSubstr("32.24 ms"));  // ring of 4
  EXPECT_THAT(text, HasSubstr("40.42 ms"));  // and of 16
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST(SweepJson, HasAPlanPerPoint) {
  const auto json = nlohmann::json::parse(SweepJson(*SweepOf(SweepFlags("bytes=1MiB,25MiB"))));
  EXPECT_EQ(json.at("sweep"), "bytes");
  ASSERT_EQ(json.at("points").size(), 2U);
  EXPECT_EQ(json.at("points").at(1).at("value"), "25MiB");
  EXPECT_TRUE(json.at("points").at(0).contains("algorithms"));
}

TEST(SweepSvg, DrawsALineForEveryAlgorithmThatTakesTime) {
  const std::string svg = SweepSvg(*SweepOf(SweepFlags("ranks=1..64")));
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg.substr(0, 80);
  for (const char* part : {">ring<", ">double_tree<", ">recommended<", ">64<", " ms<"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(SvgText, OfNothingIsAnEmptyPicture) {
  EXPECT_THAT(SvgText({.title = "a < b", .x_label = "", .y_label = ""}), HasSubstr("a &lt; b"));
}

}  // namespace
}  // namespace maypole::cli
