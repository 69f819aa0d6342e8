#include "cli/plan/plan_flags.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PlanFlags Flags() {
  PlanFlags flags;
  flags.bytes = "1GB";
  flags.ranks = 32;
  flags.bandwidth = "25Gbps";
  return flags;
}

collective::PlanRequest Changed(const std::function<void(PlanFlags&)>& change) {
  PlanFlags flags = Flags();
  change(flags);
  const auto request = RequestOf(flags);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.value_or(collective::PlanRequest{});
}

std::string Refusal(const std::function<void(PlanFlags&)>& spoil) {
  PlanFlags flags = Flags();
  spoil(flags);
  const auto request = RequestOf(flags);
  return request.ok() ? "" : std::string(request.status().message());
}

TEST(PlanFlags, MeanARequest) {
  const collective::PlanRequest request = Changed([](PlanFlags& flags) {
    flags.ranks_per_node = 8;
    flags.latency = "10us";
    flags.message = "1us";
    flags.rails = 2;
    flags.inner_bandwidth = "400Gbps";
    flags.nodes_per_rack = 2;
    flags.uplink = "100Gbps";
    flags.compute = "120ms";
    flags.algorithm = "double_tree";
  });
  EXPECT_EQ(request.bytes, 1'000'000'000U);
  EXPECT_EQ(request.ranks_per_node, 8U);
  EXPECT_DOUBLE_EQ(request.link.latency_seconds, 1e-5);
  EXPECT_DOUBLE_EQ(request.link.bytes_per_second, 25e9 / 8);
  EXPECT_DOUBLE_EQ(request.link.message_seconds, 1e-6);
  EXPECT_EQ(request.link.rails, 2U);
  EXPECT_EQ(request.link.uplink.members, 2U);
  EXPECT_DOUBLE_EQ(request.link.uplink.bytes_per_second, 100e9 / 8);
  EXPECT_DOUBLE_EQ(request.inner->bytes_per_second, 400e9 / 8);
  EXPECT_DOUBLE_EQ(*request.compute_seconds, 0.12);
  EXPECT_EQ(request.algorithm, collective::Algorithm::kDoubleTree);
}

TEST(PlanFlags, TakeFromMeasurementsWhatIsNotGiven) {
  const auto measure = [](PlanFlags& flags) {
    flags.bandwidth.clear();
    flags.measured = {.latency_seconds = 40e-6, .bytes_per_second = 117e6, .message_seconds = 3e-6};
  };
  const auto measured = Changed(measure);
  EXPECT_EQ(measured.link.latency_seconds, 40e-6);
  EXPECT_EQ(measured.link.bytes_per_second, 117e6);
  EXPECT_EQ(measured.link.message_seconds, 3e-6);
  const auto mixed = Changed([&](PlanFlags& flags) {
    measure(flags);
    flags.bandwidth = "8Gbps";
  });
  EXPECT_EQ(mixed.link.latency_seconds, 40e-6);
  EXPECT_EQ(mixed.link.bytes_per_second, 1e9);
  EXPECT_DOUBLE_EQ(Changed([](PlanFlags&) {}).link.latency_seconds, 5e-6);
}

TEST(PlanFlags, TakeParametersForBytes) {
  const auto bytes = [](const char* params, const char* dtype) {
    return Changed([&](PlanFlags& flags) {
             flags.bytes.clear();
             flags.params = params;
             flags.dtype = dtype;
           })
        .bytes;
  };
  EXPECT_EQ(bytes("7e9", "bf16"), 14'000'000'000U);
  EXPECT_EQ(bytes("7B", "bfloat16"), 14'000'000'000U);
  EXPECT_EQ(bytes("350m", "float32"), 1'400'000'000U);
  EXPECT_EQ(bytes("1.1K", "int8"), 1'100U);
}

TEST(PlanFlags, TurnCompressionIntoBytesOnTheWire) {
  const auto ratio = [](const char* dtype, const char* compression) {
    return Changed([&](PlanFlags& flags) {
             flags.dtype = dtype;
             flags.compression = compression;
           })
        .bytes_on_wire;
  };
  EXPECT_EQ(ratio("f32", "none"), 1);
  EXPECT_EQ(ratio("f32", "bf16"), 0.5);
  EXPECT_EQ(ratio("f32", "int8"), 0.25);
  EXPECT_EQ(ratio("bf16", "int4"), 0.25);
  EXPECT_DOUBLE_EQ(ratio("f32", "topk:0.01"), 0.02);  // a value and an index
}

TEST(PlanFlags, AreRefusedWithTheirValueAndTheAllowedForm) {
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.bytes = "25Gb"; }),
              AllOf(HasSubstr("--bytes"), HasSubstr("\"25Gb\""), HasSubstr("64KiB")));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.bandwidth = "25GB"; }),
              AllOf(HasSubstr("--bandwidth"), HasSubstr("\"25GB\""), HasSubstr("25Gbps")));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.bandwidth.clear(); }),
              HasSubstr("give --bandwidth 25Gbps"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.latency = "-5us"; }),
              AllOf(HasSubstr("--latency"), HasSubstr("\"-5us\""), HasSubstr("250ms")));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.latency = "5"; }), HasSubstr("--latency"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.params = "7e9"; }), HasSubstr("either as --bytes"));
  for (const char* params : {"0.5", "7X", "B", "7BB", "-7B", "1e16", "nan"}) {
    EXPECT_THAT(Refusal([&](PlanFlags& f) {
                  f.bytes.clear();
                  f.params = params;
                }),
                AllOf(HasSubstr(params), HasSubstr("such as 7e9, 7B or 350M")));
  }
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.dtype = "fp8"; }), HasSubstr("--dtype is \"fp8\""));
  for (const char* compression : {"zip", "topk", "topk:", "topk:0", "topk:2"}) {
    EXPECT_THAT(Refusal([&](PlanFlags& f) { f.compression = compression; }),
                AllOf(HasSubstr(compression), HasSubstr("topk:RATIO")));
  }
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.algorithm = "star"; }),
              AllOf(HasSubstr("\"star\""), HasSubstr("double_tree")));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.ranks = 0; }), HasSubstr("give --ranks 8"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.ranks_per_node = 7; }), HasSubstr("7; it must divide"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.uplink = "100Gbps"; }), HasSubstr("--nodes-per-rack"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.nodes_per_rack = 4; }), HasSubstr("--uplink"));
  EXPECT_THAT(Refusal([](PlanFlags& f) {
                f.nodes_per_rack = 5;
                f.uplink = "100Gbps";
              }),
              HasSubstr("5; it must divide the 32 nodes"));
  EXPECT_THAT(Refusal([](PlanFlags& f) { f.rails = 0; }), HasSubstr("rails is 0"));
}

}  // namespace
}  // namespace maypole::cli
