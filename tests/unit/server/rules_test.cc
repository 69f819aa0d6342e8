#include "server/rules.h"

#include <gmock/gmock.h>

#include "proto/tuning_messages.h"

namespace maypole::server {
namespace {

using collective::Algorithm;
using collective::Collective;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string Refusal(const std::string& text) {
  const auto rules = ParseRules(text, "r.toml");
  return rules.ok() ? "accepted" : std::string(rules.status().message());
}

TEST(Rules, AreReadWithTheirLines) {
  const auto rules = ParseRules(R"(# small ones
[[rule]]
collective = "all_reduce"
below = "64KiB"
algorithm = "direct"

[[rule]]
collective = "all_reduce"
from = "64KiB"
below = "1.5MB"
algorithm = "tree"
slice = "128KiB"

[[rule]]
collective = "broadcast"
from = "1GB"
algorithm = "ring"
)",
                                "r.toml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_THAT(*rules, SizeIs(3));
  EXPECT_EQ((*rules)[0].bytes_begin, 0u);
  EXPECT_EQ((*rules)[0].bytes_end, 65536u);
  EXPECT_EQ((*rules)[0].algorithm, Algorithm::kDirect);
  EXPECT_EQ((*rules)[0].slice_bytes, 0u);
  EXPECT_EQ((*rules)[0].origin, "r.toml, line 2");
  EXPECT_EQ((*rules)[1].bytes_end, 1'500'000u);
  EXPECT_EQ((*rules)[1].slice_bytes, 131072u);
  EXPECT_EQ((*rules)[2].collective, Collective::kBroadcast);
  EXPECT_EQ((*rules)[2].bytes_end, collective::kNoLimit);
}

TEST(Rules, MayBeNone) {
  EXPECT_THAT(*ParseRules("# nothing yet\n", "r.toml"), IsEmpty());
}

TEST(Rules, AreRefusedWithValueLineAndTheAllowedForm) {
  const auto with = [](const std::string& lines) {
    return Refusal("[[rule]]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\n" + lines);
  };
  EXPECT_EQ(with(""), "accepted");
  EXPECT_THAT(with("from = \"25Gb\""),
              AllOf(HasSubstr("line 4"), HasSubstr("25Gb"), HasSubstr("GB")));
  EXPECT_THAT(with("from = \"64\""), AllOf(HasSubstr("\"64\""), HasSubstr("unit")));
  EXPECT_THAT(with("from = 64"), AllOf(HasSubstr("line 4"), HasSubstr("quotes")));
  EXPECT_THAT(with("from = \"64 kib\""), HasSubstr("64 kib"));
  EXPECT_THAT(with("from = \"-1KiB\""), HasSubstr("-1KiB"));
  EXPECT_THAT(with("from = \"1.5.5KiB\""), HasSubstr("1.5.5KiB"));
  EXPECT_THAT(with("from = \"1MiB\"\nbelow = \"1MiB\""),
              AllOf(HasSubstr("line 5"), HasSubstr("empty")));
  EXPECT_THAT(with("slice = \"1KiB\""), AllOf(HasSubstr("1KiB"), HasSubstr("4KiB to 64MiB")));
  EXPECT_THAT(with("size = \"1KiB\""), AllOf(HasSubstr("\"size\""), HasSubstr("from, below")));
  EXPECT_THAT(Refusal("[[rule]]\ncollective = \"all_sum\"\nalgorithm = \"ring\""),
              AllOf(HasSubstr("line 2"), HasSubstr("all_sum"), HasSubstr("reduce_scatter")));
  EXPECT_THAT(Refusal("[[rule]]\ncollective = \"broadcast\"\nalgorithm = \"halving\""),
              AllOf(HasSubstr("line 3"), HasSubstr("halving"), HasSubstr("ring, direct, tree")));
  EXPECT_THAT(Refusal("[[rule]]\nalgorithm = \"ring\""),
              HasSubstr("collective is missing; one of all_reduce, reduce_scatter"));
  EXPECT_THAT(Refusal("[[rule]]\ncollective = \"all_reduce\""),
              HasSubstr("algorithm is missing; one of ring"));
  EXPECT_THAT(Refusal("[rule]\ncollective = \"all_reduce\""), HasSubstr("[[rule]]"));
  EXPECT_THAT(Refusal("[[rules]]\ncollective = \"all_reduce\""), HasSubstr("\"rules\""));
  EXPECT_THAT(Refusal("[[rule]\n"), AllOf(HasSubstr("line 1"), HasSubstr("no TOML")));
}

TEST(Rules, ThatOverlapAreRefusedWithBothPlaces) {
  const std::string small =
      "[[rule]]\ncollective = \"all_reduce\"\nbelow = \"2KiB\"\nalgorithm = \"tree\"\n";
  const std::string from = "[[rule]]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nfrom = ";
  EXPECT_EQ(Refusal(small + from + "\"2KiB\""), "accepted");
  EXPECT_THAT(Refusal(small + from + "\"1KiB\""),
              AllOf(HasSubstr("r.toml, line 5"), HasSubstr("r.toml, line 1"), HasSubstr("1KiB")));
}

TEST(Rules, AreNoMoreThanATableHasRoomFor) {
  const auto file = [](std::size_t rules) {
    std::string text;
    for (std::size_t i = 0; i < rules; ++i) {
      text += "[[rule]]\ncollective = \"all_reduce\"\nalgorithm = \"ring\"\nfrom = \"" +
              std::to_string(1001 + 2 * i) + "B\"\nbelow = \"" + std::to_string(1002 + 2 * i) +
              "B\"\n";
    }
    return text;
  };
  const auto rules = ParseRules(file(kRulesMax), "r.toml");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const collective::LinkModel link = {.latency_seconds = 1e-5, .bytes_per_second = 1e9};
  const collective::TuningTable table = collective::MakeTuningTable(
      {.members = 4, .links = collective::MeasuredLinks{link, link, {}}, .rules = *rules});
  EXPECT_LE(table.rows.size(), std::size_t{kTuningRowsMax});
  EXPECT_THAT(Refusal(file(kRulesMax + 1)), AllOf(HasSubstr("1025"), HasSubstr("1024")));
}

TEST(Rules, OfAFileThatIsNotThereAreAnError) {
  EXPECT_FALSE(ReadRules("/no/such/file").ok());
  EXPECT_FALSE(ReadRules("/").ok());
}

}  // namespace
}  // namespace maypole::server
