#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/line_splitter.h"
#include "cli/status_text.h"
#include "cli/text_table.h"
#include "proto/coordinator.pb.h"

namespace maypole::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  const auto sink = [&lines](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) {
    splitter.Add(piece, sink);
  }
  lines.push_back("|");
  splitter.Flush(sink);
  return lines;
}

TEST(LineSplitter, CutsAtNewlinesWhereverThePiecesEnd) {
  EXPECT_THAT(Split({"one\ntw", "o", "\n", "\nthree\n"}),
              ElementsAre("one", "two", "", "three", "|"));
}

TEST(LineSplitter, GivesOutTheRestOnlyWhenFlushed) {
  EXPECT_THAT(Split({"one\nrest"}), ElementsAre("one", "|", "rest"));
  EXPECT_THAT(Split({}), ElementsAre("|"));
}

TEST(LineSplitter, DoesNotHoldALineWithoutEnd) {
  const std::string endless(LineSplitter::kLongestLine, 'x');
  EXPECT_THAT(Split({endless, "y\n"}), ElementsAre(endless, "y", "|"));
}

TEST(TextTable, PadsEveryColumnToItsWidestCell) {
  TextTable table({"A", "LONG"});
  table.AddRow({"wide", "x"});
  EXPECT_EQ(table.ToString(), "A     LONG\nwide  x\n");
}

TEST(StatusText, SaysThatThereIsNothing) {
  const std::string text = StatusText(v1::Status());
  EXPECT_THAT(text, HasSubstr("No agent has attached."));
  EXPECT_THAT(text, HasSubstr("No job."));
  EXPECT_THAT(text, HasSubstr("Nothing waits."));
}

TEST(StatusText, ShowsNodesJobsAndWhatWaitsForWhom) {
  v1::Status status;
  v1::NodeStatus& node = *status.add_nodes();
  node.set_node("node-a");
  node.set_attached(true);
  node.set_since_seconds(3700);
  v1::WaitingOp& op = *node.mutable_report()->add_waiting();
  op.set_job("train");
  op.set_op("layer1");
  op.set_seconds(6);
  op.add_missing_ranks(1);
  op.add_missing_ranks(3);
  op.set_reason("not submitted");
  v1::JobStatus& job = *status.add_jobs();
  job.set_job("train");
  job.set_state("forming");
  job.set_world_size(4);
  job.set_reason("3 of 4 ranks have joined");
  job.add_missing_ranks(2);
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("node-a"));
  EXPECT_THAT(text, HasSubstr("1h1min"));
  EXPECT_THAT(text,
              HasSubstr("Job train: forming, epoch 0, world size 4\n  3 of 4 ranks have joined"));
  EXPECT_THAT(text, HasSubstr("missing ranks: 2"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "node-a: op 'layer1' #0 of job train waits for ranks 1,3 since 6.0s: not submitted"));
}

}  // namespace
}  // namespace maypole::cli
