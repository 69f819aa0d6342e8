#include "agent/segment/slot_reader.h"

#include <cstring>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/control.h"
#include "proto/text.h"

namespace maypole::agent {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSegmentBytes = 4096;
alignas(64) std::byte g_segment[kSegmentBytes];

BufferView Find(std::uint32_t segment) {
  return segment == 5 ? BufferView{MemoryKind::kHost, g_segment, kSegmentBytes} : BufferView{};
}

SlotRequest Valid() {
  SlotRequest request;
  request.segment = 5;
  request.offset = 64;
  request.elements = 10;
  request.name_bytes = static_cast<std::uint16_t>(StoreText(request.name, "layer1"));
  return request;
}

Submission Accept(const SlotRequest& request) {
  auto read = ReadSlot(request, Find);
  if (const auto* refusal = std::get_if<Outcome>(&read)) {
    ADD_FAILURE() << refusal->text;
    return {};
  }
  return std::get<Submission>(read);
}

std::string Refusal(const SlotRequest& request) {
  auto read = ReadSlot(request, Find);
  if (!std::holds_alternative<Outcome>(read)) {
    ADD_FAILURE() << "it was accepted";
    return "";
  }
  EXPECT_EQ(std::get<Outcome>(read).code, ErrorCode::kInvalidArgument);
  return std::get<Outcome>(read).text;
}

TEST(SlotReader, TakesEveryFieldOver) {
  SlotRequest request = Valid();
  request.dtype = static_cast<std::uint8_t>(DType::kI64);
  request.reduction = static_cast<std::uint8_t>(Reduction::kMax);
  request.algorithm = 2;
  request.flags = kSlotSharedResult | kSlotOverwrite;
  request.priority = -3;
  request.timeout_ns = 1'000;
  const Submission submission = Accept(request);
  EXPECT_EQ(submission.name, "layer1");
  EXPECT_EQ(submission.dtype, DType::kI64);
  EXPECT_EQ(submission.reduction, Reduction::kMax);
  EXPECT_EQ(submission.algorithm, collective::Algorithm::kDirect);
  EXPECT_TRUE(submission.shared_result && submission.overwrite);
  EXPECT_EQ(submission.priority, -3);
  EXPECT_EQ(submission.timeout, std::chrono::microseconds(1));
  EXPECT_EQ(submission.tensor.address, g_segment + 64);
  EXPECT_EQ(submission.tensor.bytes, 80u);
}

TEST(SlotReader, TheLastElementMayEndWithTheSegmentAndNotBeyond) {
  SlotRequest request = Valid();
  request.offset = kSegmentBytes - 40;
  EXPECT_EQ(Accept(request).tensor.bytes, 40u);
  request.elements = 11;
  EXPECT_THAT(Refusal(request), HasSubstr("element count 11"));
  request.elements = 1;
  request.offset = kSegmentBytes;
  EXPECT_THAT(Refusal(request), HasSubstr("offset 4096"));
  request.offset = kSegmentBytes + 4;
  EXPECT_THAT(Refusal(request), HasSubstr("outside segment 5"));
}

TEST(SlotReader, CountsThatOverflowAreRefused) {
  SlotRequest request = Valid();
  for (const std::uint64_t elements : {std::numeric_limits<std::uint64_t>::max(),
                                       (std::uint64_t{1} << 62) + 1,
                                       std::uint64_t{1} << 62}) {
    request.elements = elements;
    EXPECT_THAT(Refusal(request), HasSubstr(std::to_string(elements)));
  }
  request = Valid();
  request.offset = std::numeric_limits<std::uint64_t>::max() - 3;
  EXPECT_THAT(Refusal(request), HasSubstr("outside"));
}

TEST(SlotReader, ZeroElementsNeedNoSegment) {
  SlotRequest request;
  request.segment = 99;
  request.offset = 3;
  const Submission submission = Accept(request);
  EXPECT_EQ(submission.elements, 0u);
  EXPECT_EQ(submission.tensor.address, nullptr);
  EXPECT_EQ(submission.name, "");
}

TEST(SlotReader, WrongValuesAreNamed) {
  const auto with = [](auto change) {
    SlotRequest request = Valid();
    change(request);
    return Refusal(request);
  };
  EXPECT_THAT(with([](SlotRequest& r) { r.collective = 8; }), HasSubstr("collective 8"));
  EXPECT_THAT(with([](SlotRequest& r) { r.dtype = 8; }), HasSubstr("dtype 8"));
  EXPECT_THAT(with([](SlotRequest& r) { r.reduction = 255; }), HasSubstr("reduction 255"));
  EXPECT_THAT(with([](SlotRequest& r) { r.algorithm = 8; }), HasSubstr("algorithm 8"));
  EXPECT_THAT(with([](SlotRequest& r) { r.flags = 4; }), HasSubstr("flags 4"));
  EXPECT_THAT(with([](SlotRequest& r) { r.reserved = 1; }), HasSubstr("reserved"));
  EXPECT_THAT(with([](SlotRequest& r) { r.segment = 6; }), HasSubstr("segment 6"));
  EXPECT_THAT(with([](SlotRequest& r) { r.offset = 66; }), HasSubstr("offset 66"));
  EXPECT_THAT(with([](SlotRequest& r) { r.name_bytes = 256; }), HasSubstr("256"));
  EXPECT_THAT(with([](SlotRequest& r) { r.name[0] = '\n'; }), HasSubstr("UTF-8"));
  EXPECT_THAT(with([](SlotRequest& r) { r.collective = 1; }), HasSubstr("barrier"));
}

SlotRequest With(collective::Collective collective) {
  SlotRequest request = Valid();
  request.collective = static_cast<std::uint8_t>(collective);
  return request;
}

TEST(SlotReader, NamesAnAlgorithmThatACollectiveLacks) {
  SlotRequest request = With(collective::Collective::kReduceScatter);
  request.algorithm = static_cast<std::uint8_t>(collective::Algorithm::kHalvingDoubling);
  EXPECT_THAT(
      Refusal(request),
      HasSubstr("algorithm \"halving\" does not exist for reduce_scatter; ask for auto, ring, "
                "direct or tree"));
}

TEST(SlotReader, TakesRootAndPeerWhereTheyMeanSomething) {
  SlotRequest request = With(collective::Collective::kSendReceive);
  request.root = 3;
  request.peer = 5;
  EXPECT_EQ(Accept(request).root, Rank(3));
  EXPECT_EQ(Accept(request).peer, Rank(5));
  request.collective = 0;
  EXPECT_EQ(Accept(request).root, Rank(0));
}

TEST(SlotReader, CopiesTheTableOfCountsAndChecksItsSum) {
  SlotRequest request = With(collective::Collective::kAllGather);
  const std::uint64_t counts[] = {4, 0, 6};
  std::memcpy(g_segment + 512, counts, sizeof(counts));
  request.counts_segment = 5;
  request.counts_offset = 512;
  request.counts_entries = 3;
  EXPECT_THAT(Accept(request).counts, testing::ElementsAre(4, 0, 6));
  request.elements = 9;
  EXPECT_THAT(Refusal(request), HasSubstr("not the sum of the counts, which is 10"));
  const std::uint64_t huge[] = {std::numeric_limits<std::uint64_t>::max(), 10};
  std::memcpy(g_segment + 512, huge, sizeof(huge));
  request.counts_entries = 2;
  EXPECT_THAT(Refusal(request), HasSubstr("not the sum"));
  request.counts_entries = kWorldSizeMax;
  EXPECT_THAT(Refusal(request), HasSubstr("counts element count 65536 of 8 bytes"));
  request.counts_offset = 513;
  EXPECT_THAT(Refusal(request), HasSubstr("counts offset 513"));
  request.counts_segment = 6;
  EXPECT_THAT(Refusal(request), HasSubstr("counts segment 6"));
}

TEST(SlotReader, ATableOfCountsIsBoundedBeforeItIsCopied) {
  SlotRequest request = With(collective::Collective::kAllGather);
  request.counts_segment = 7;
  for (const std::uint32_t entries : {kWorldSizeMax + 1, std::uint32_t{1} << 31, 0xffffffffu}) {
    request.counts_entries = entries;
    const auto read = ReadSlot(request, [](std::uint32_t segment) {
      return segment == 7 ? BufferView{MemoryKind::kHost, g_segment, std::uint64_t{64} << 30}
                          : Find(segment);
    });
    ASSERT_TRUE(std::holds_alternative<Outcome>(read));
    EXPECT_THAT(std::get<Outcome>(read).text,
                HasSubstr("counts element count " + std::to_string(entries) + " is above 65536"));
  }
}

TEST(SlotReader, TheOutputOfAnAllToAllLiesApart) {
  SlotRequest request = With(collective::Collective::kAllToAll);
  request.output_segment = 5;
  request.output_offset = 64 + 40;
  EXPECT_EQ(Accept(request).output.address, g_segment + 104);
  request.output_offset = 64 + 36;
  EXPECT_THAT(Refusal(request), HasSubstr("output offset 100 overlaps the input"));
  request.output_offset = kSegmentBytes - 36;
  EXPECT_THAT(Refusal(request), HasSubstr("output element count 10"));
}

TEST(SlotReader, AnAlgorithmThatTheCollectiveLacksIsRefused) {
  SlotRequest request = With(collective::Collective::kBroadcast);
  request.algorithm = static_cast<std::uint8_t>(collective::Algorithm::kNaive);
  EXPECT_THAT(Refusal(request), HasSubstr("does not exist for broadcast; ask for auto, ring"));
  request = With(collective::Collective::kReduce);
  request.flags = kSlotSharedResult;
  EXPECT_THAT(Refusal(request), HasSubstr("not for reduce"));
}

}  // namespace
}  // namespace maypole::agent
