#include "client/src/op_request.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

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

std::string ErrorOf(const maypole_op_options& options,
                    void* data = &g_value,
                    std::uint64_t count = 1) {
  OpRequest request;
  const Outcome outcome = CheckAllReduce({data, count}, &options, request);
  EXPECT_EQ(outcome.code, ErrorCode::kInvalidArgument);
  return outcome.text;
}

TEST(OpRequest, WithoutOptionsIsAnUnnamedSumOfFloats) {
  OpRequest request;
  ASSERT_TRUE(CheckAllReduce({&g_value, 1}, nullptr, request).ok());
  EXPECT_EQ(request.dtype, MAYPOLE_F32);
  EXPECT_EQ(request.reduction, MAYPOLE_SUM);
  EXPECT_EQ(request.name, "");
  EXPECT_EQ(request.element_bytes, 4u);
  EXPECT_EQ(request.timeout, Duration{0});
}

TEST(OpRequest, IsMadeDeterministicBySummingDirectly) {
  using collective::Algorithm;
  const auto made = [](maypole_algorithm algorithm, OpRequest& request) {
    const maypole_op_options options = {.algorithm = algorithm};
    EXPECT_TRUE(CheckAllReduce({&g_value, 1}, &options, request).ok());
    return MakeDeterministic(request);
  };
  OpRequest request;
  EXPECT_TRUE(made(MAYPOLE_AUTO, request).ok());
  EXPECT_EQ(request.algorithm, MAYPOLE_DIRECT);
  EXPECT_TRUE(made(MAYPOLE_NAIVE, request).ok());
  EXPECT_EQ(request.algorithm, MAYPOLE_NAIVE);
  EXPECT_THAT(made(MAYPOLE_TREE, request).text, HasSubstr("\"tree\" cannot be had"));
  const maypole_op_options ring = {.algorithm = MAYPOLE_RING};
  ASSERT_TRUE(
      CheckRooted(collective::Collective::kBroadcast, {&g_value, 1}, 0, &ring, {}, request).ok());
  EXPECT_TRUE(MakeDeterministic(request).ok());  // which sums nothing
  EXPECT_EQ(request.algorithm, MAYPOLE_RING);
}

TEST(OpRequest, ZeroElementsNeedNoData) {
  OpRequest request;
  EXPECT_TRUE(CheckAllReduce({nullptr, 0}, nullptr, request).ok());
}

TEST(OpRequest, UnknownNumbersAreRefusedWithTheirValue) {
  maypole_op_options options{};
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
  maypole_op_options options{};
  options.dtype = MAYPOLE_F64;
  const std::uint64_t count = (std::uint64_t{1} << 61) + 1;  // times 8 is 8 in 64 bits
  EXPECT_THAT(ErrorOf(options, &g_value, count), HasSubstr("count " + std::to_string(count)));
  EXPECT_THAT(ErrorOf(options, nullptr, 1), HasSubstr("data is NULL"));
}

TEST(OpRequest, NamesAreChecked) {
  maypole_op_options options{};
  const std::string longest(255, 'n');
  const std::string too_long(256, 'n');
  OpRequest request;
  options.name = longest.c_str();
  EXPECT_TRUE(CheckAllReduce({&g_value, 1}, &options, request).ok());
  options.name = too_long.c_str();
  EXPECT_THAT(ErrorOf(options), HasSubstr("256 bytes"));
  options.name = "a\nb";
  EXPECT_THAT(ErrorOf(options), HasSubstr("UTF-8"));
  EXPECT_FALSE(CheckBarrier("\xff", 0, request).ok());
}

TEST(OpRequest, TimeoutsAreChecked) {
  maypole_op_options options{};
  OpRequest request;
  options.timeout = std::nan("");
  EXPECT_THAT(ErrorOf(options), HasSubstr("timeout"));
  options.timeout = -1;
  ASSERT_TRUE(CheckAllReduce({&g_value, 1}, &options, request).ok());
  EXPECT_EQ(request.timeout, Duration{0});
  options.timeout = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(CheckAllReduce({&g_value, 1}, &options, request).ok());
  EXPECT_GT(request.timeout, std::chrono::hours(24 * 365));
  options.timeout = 0.25;
  ASSERT_TRUE(CheckAllReduce({&g_value, 1}, &options, request).ok());
  EXPECT_EQ(request.timeout, std::chrono::milliseconds(250));
}

constexpr Caller kRank1Of3 = {.rank = 1, .world_size = 3};

TEST(OpRequest, OfBlocksReadsOrWritesTheOwnOne) {
  float values[9];
  OpRequest scatter;
  ASSERT_TRUE(
      CheckBlocks(
          collective::Collective::kReduceScatter, {values, 9}, nullptr, nullptr, kRank1Of3, scatter)
          .ok());
  EXPECT_EQ(scatter.reads.count, 9u);
  EXPECT_EQ(scatter.writes.begin, 3u);
  EXPECT_EQ(scatter.writes.count, 3u);
  const std::uint64_t counts[] = {5, 0, 4};
  OpRequest gather;
  ASSERT_TRUE(CheckBlocks(collective::Collective::kAllGather,
                          {values, 9},
                          counts,
                          nullptr,
                          {.rank = 2, .world_size = 3},
                          gather)
                  .ok());
  EXPECT_EQ(gather.reads.begin, 5u);
  EXPECT_EQ(gather.reads.count, 4u);
  EXPECT_EQ(gather.writes.count, 9u);
}

TEST(OpRequest, BlocksThatDoNotFitAreRefused) {
  float values[9];
  const auto refusal = [&](std::uint64_t count, const std::uint64_t* counts) {
    OpRequest request;
    return CheckBlocks(collective::Collective::kAllGather,
                       {values, count},
                       counts,
                       nullptr,
                       kRank1Of3,
                       request)
        .text;
  };
  EXPECT_THAT(refusal(8, nullptr), HasSubstr("count 8 of all_gather is not a multiple"));
  const std::uint64_t less[] = {1, 2, 3};
  EXPECT_THAT(refusal(9, less), HasSubstr("add up to 6, not to count 9"));
  const std::uint64_t overflow[] = {std::numeric_limits<std::uint64_t>::max(), 9, 1};
  EXPECT_THAT(refusal(9, overflow), HasSubstr("add up to more, not to count 9"));
}

TEST(OpRequest, OfARootReadsThereOrWritesThere) {
  const auto check = [](collective::Collective collective, std::int64_t root) {
    OpRequest request;
    EXPECT_TRUE(CheckRooted(collective, {&g_value, 1}, root, nullptr, kRank1Of3, request).ok());
    return std::pair(request.reads.count, request.writes.count);
  };
  EXPECT_EQ(check(collective::Collective::kBroadcast, 1), std::pair(1ul, 0ul));
  EXPECT_EQ(check(collective::Collective::kBroadcast, 0), std::pair(0ul, 1ul));
  EXPECT_EQ(check(collective::Collective::kReduce, 1), std::pair(1ul, 1ul));
  EXPECT_EQ(check(collective::Collective::kReduce, 0), std::pair(1ul, 0ul));
  OpRequest request;
  for (const std::int64_t root : {-1, 3}) {
    EXPECT_THAT(
        CheckRooted(
            collective::Collective::kReduce, {&g_value, 1}, root, nullptr, kRank1Of3, request)
            .text,
        HasSubstr("root is rank " + std::to_string(root)));
  }
}

TEST(OpRequest, OfAPairHasTwoRanks) {
  OpRequest request;
  ASSERT_TRUE(CheckSide(Side::kSend, {&g_value, 1}, 2, nullptr, kRank1Of3, request).ok());
  EXPECT_EQ(request.root, 1u);
  EXPECT_EQ(request.peer, 2u);
  EXPECT_EQ(request.writes.count, 0u);
  EXPECT_THAT(CheckSide(Side::kReceive, {&g_value, 1}, 1, nullptr, kRank1Of3, request).text,
              HasSubstr("rank 1 cannot receive from itself"));
  EXPECT_THAT(CheckSide(Side::kSend, {&g_value, 1}, 3, nullptr, kRank1Of3, request).text,
              HasSubstr("to is rank 3"));
}

TEST(OpRequest, OfAnAllToAllNeedsAnOutputApart) {
  float values[12];
  OpRequest request;
  ASSERT_TRUE(CheckAllToAll({values, 6}, values + 6, nullptr, kRank1Of3, request).ok());
  EXPECT_EQ(request.output, values + 6);
  EXPECT_THAT(CheckAllToAll({values, 6}, values + 5, nullptr, kRank1Of3, request).text,
              HasSubstr("overlap"));
  EXPECT_THAT(CheckAllToAll({values, 6}, nullptr, nullptr, kRank1Of3, request).text,
              HasSubstr("output is NULL"));
  EXPECT_THAT(CheckAllToAll({values, 5}, values + 6, nullptr, kRank1Of3, request).text,
              HasSubstr("world size 3"));
}

}  // namespace
}  // namespace maypole::client::internal
