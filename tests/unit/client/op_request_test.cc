#include "client/src/op_request.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::client::internal {
namespace {

using testing::HasSubstr;

float g_value = 0;

// As a C caller may, and C++ may not.
template <typename Enum>
void SetNumber(Enum& value, std::uint32_t number) {
  std::memcpy(&value, &number, sizeof(value));
}

std::string ErrorOf(const maypole_all_reduce_options& options,
                    void* data = &g_value,
                    std::uint64_t count = 1) {
  OpRequest request;
  const Outcome outcome = CheckAllReduce(data, count, &options, request);
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  return outcome.text;
}

TEST(OpRequest, WithoutOptionsIsAnUnnamedSumOfFloats) {
  OpRequest request;
  ASSERT_TRUE(CheckAllReduce(&g_value, 1, nullptr, request).ok());
  EXPECT_EQ(request.dtype, MAYPOLE_F32);
  EXPECT_EQ(request.reduction, MAYPOLE_SUM);
  EXPECT_EQ(request.name, "");
  EXPECT_EQ(request.element_bytes, 4u);
  EXPECT_EQ(request.timeout, Duration{0});
}

TEST(OpRequest, ZeroElementsNeedNoData) {
  OpRequest request;
  EXPECT_TRUE(CheckAllReduce(nullptr, 0, nullptr, request).ok());
}

TEST(OpRequest, UnknownNumbersAreRefusedWithTheirValue) {
  maypole_all_reduce_options options{};
  SetNumber(options.dtype, 99);
  EXPECT_THAT(ErrorOf(options), HasSubstr("dtype 99"));
  SetNumber(options.dtype, 8);
  EXPECT_THAT(ErrorOf(options), HasSubstr("dtype 8"));
  options = {};
  SetNumber(options.reduction, 9);
  EXPECT_THAT(ErrorOf(options), HasSubstr("reduction 9"));
  options = {};
  SetNumber(options.algorithm, 8);
  EXPECT_THAT(ErrorOf(options), HasSubstr("algorithm 8"));
}

TEST(OpRequest, SizesThatOverflowAreRefused) {
  maypole_all_reduce_options options{};
  options.dtype = MAYPOLE_F64;
  const std::uint64_t count = (std::uint64_t{1} << 61) + 1;  // times 8 is 8 in 64 bits
  EXPECT_THAT(ErrorOf(options, &g_value, count), HasSubstr("count " + std::to_string(count)));
  EXPECT_THAT(ErrorOf(options, nullptr, 1), HasSubstr("data is NULL"));
}

TEST(OpRequest, NamesAreChecked) {
  maypole_all_reduce_options options{};
  const std::string longest(255, 'n');
  const std::string too_long(256, 'n');
  OpRequest request;
  options.name = longest.c_str();
  EXPECT_TRUE(CheckAllReduce(&g_value, 1, &options, request).ok());
  options.name = too_long.c_str();
  EXPECT_THAT(ErrorOf(options), HasSubstr("256 bytes"));
  options.name = "a\nb";
  EXPECT_THAT(ErrorOf(options), HasSubstr("UTF-8"));
  EXPECT_FALSE(CheckBarrier("\xff", 0, request).ok());
}

TEST(OpRequest, TimeoutsAreChecked) {
  maypole_all_reduce_options options{};
  OpRequest request;
  options.timeout = std::nan("");
  EXPECT_THAT(ErrorOf(options), HasSubstr("timeout"));
  options.timeout = -1;
  ASSERT_TRUE(CheckAllReduce(&g_value, 1, &options, request).ok());
  EXPECT_EQ(request.timeout, Duration{0});
  options.timeout = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(CheckAllReduce(&g_value, 1, &options, request).ok());
  EXPECT_GT(request.timeout, std::chrono::hours(24 * 365));
  options.timeout = 0.25;
  ASSERT_TRUE(CheckAllReduce(&g_value, 1, &options, request).ok());
  EXPECT_EQ(request.timeout, std::chrono::milliseconds(250));
}

}  // namespace
}  // namespace maypole::client::internal
