#include "proto/tuning_messages.h"

#include <gmock/gmock.h>

#include "proto/coordinator.pb.h"

namespace maypole {
namespace {

using testing::HasSubstr;

collective::TuningTable Example() {
  collective::TuningTable tuning = collective::MakeTuningTable(4, {1e-5, 1e9, 1e-6});
  tuning.version = 7;
  return tuning;
}

TEST(TuningMessages, ATableComesBackAsItWas) {
  v1::TuningTable message;
  FillTuning(Example(), message);
  const auto read = ReadTuning(message);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Example());
}

TEST(TuningMessages, RowsThatCannotBeAreRefusedWithTheirValue) {
  const auto refusal = [](auto change) {
    v1::TuningTable message;
    FillTuning(Example(), message);
    change(*message.mutable_rows(1));
    return std::string(ReadTuning(message).status().message());
  };
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_algorithm("auto"); }), HasSubstr("\"auto\""));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_collective("sum"); }), HasSubstr("\"sum\""));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_bytes_begin(7); }), HasSubstr("overlaps"));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_bytes_end(0); }), HasSubstr("below 0 bytes"));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_slice_bytes(1 << 30); }),
              HasSubstr("1073741824"));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_slice_bytes(4095); }), HasSubstr("4095"));
  EXPECT_THAT(refusal([](v1::TuningRow& r) { r.set_seconds(-1); }), HasSubstr("-1.0"));
}

TEST(TuningMessages, LevelsMustBeOfAllMembers) {
  v1::Epoch epoch;
  for (int i = 0; i < 4; ++i) {
    epoch.add_members();
  }
  const std::vector<collective::Level> levels = {{{2, 2}}, {{2}, collective::Algorithm::kTree}};
  FillLevels(levels, epoch);
  EXPECT_EQ(*ReadLevels(epoch), levels);
  epoch.add_members();
  EXPECT_FALSE(ReadLevels(epoch).ok());
  epoch.mutable_levels(0)->set_algorithm("sum");
  EXPECT_THAT(std::string(ReadLevels(epoch).status().message()), HasSubstr("\"sum\""));
}

}  // namespace
}  // namespace maypole
