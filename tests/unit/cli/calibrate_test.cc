#include "cli/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void AddLink(v1::Status& status, const char* to, double latency, double rate, double message) {
  v1::LinkStatus& link = *status.add_links();
  link.set_node_a("node-0");
  link.set_node_b(to);
  link.set_latency_seconds(latency);
  link.set_bytes_per_second(rate);
  link.set_message_seconds(message);
}

TEST(Calibration, TakesTheMediansAndNamesTheSlowest) {
  v1::Status status;
  AddLink(status, "node-1", 10e-6, 125e6, 1e-6);
  AddLink(status, "node-2", 30e-6, 25e6, 3e-6);
  AddLink(status, "node-3", 20e-6, 120e6, 2e-6);
  const auto calibration = CalibrationFrom(status);
  ASSERT_TRUE(calibration.ok()) << calibration.status().ToString();
  EXPECT_EQ(calibration->link.latency_seconds, 20e-6);
  EXPECT_EQ(calibration->link.bytes_per_second, 120e6);
  EXPECT_EQ(calibration->link.message_seconds, 2e-6);
  EXPECT_THAT(calibration->summary,
              AllOf(HasSubstr("3 links"), HasSubstr("node-0 to node-2"), HasSubstr("0.2 Gbit/s")));
}

TEST(Calibration, NeedsAMeasuredLink) {
  v1::Status status;
  AddLink(status, "node-1", 0, 0, 0);
  const auto calibration = CalibrationFrom(status);
  ASSERT_FALSE(calibration.ok());
  EXPECT_THAT(std::string(calibration.status().message()), HasSubstr("--probe-links"));
}

}  // namespace
}  // namespace maypole::cli
