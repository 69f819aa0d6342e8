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
  v1::NodeStatus& other = *status.add_nodes();
  other.set_node("node-b");
  *other.mutable_report()->add_waiting() = op;
  other.mutable_report()->mutable_waiting(0)->set_seconds(7.9);
  v1::JobStatus& job = *status.add_jobs();
  job.set_job("train");
  job.set_state("forming");
  job.set_world_size(4);
  job.set_reason("3 of 4 ranks have joined");
  job.add_missing_ranks(2);
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("node-a"));
  EXPECT_THAT(text, HasSubstr("1 h 1 min"));
  EXPECT_THAT(text, HasSubstr("Job train: forming, world size 4\n  3 of 4 ranks have joined"));
  EXPECT_THAT(text, HasSubstr("missing: rank 2\n"));
  EXPECT_THAT(
      text,
      HasSubstr("Waiting:\n  op 'layer1' #0 of job train has waited on node-a, node-b for 7.9 s, "
                "ranks 1, 3 missing: not submitted\n"))
      << "an op that several nodes tell of is one line";
}

TEST(StatusText, SaysWhoIsInTheRing) {
  v1::Status status;
  v1::JobStatus& job = *status.add_jobs();
  job.set_state("running");
  job.set_epoch(2);
  for (const char* node : {"a", "b"}) {
    v1::EpochMember& member = *job.add_members();
    member.set_node(node);
    member.add_ranks(job.members_size() - 1);
  }
  EXPECT_THAT(StatusText(status), HasSubstr("running, epoch 2, world size 0"));
  EXPECT_THAT(StatusText(status), HasSubstr("  ring: a (rank 0), b (rank 1)\n"));
}

void AddRow(v1::TuningTable& tuning,
            std::uint64_t begin,
            std::uint64_t end,
            const std::string& algorithm,
            double seconds) {
  v1::TuningRow& row = *tuning.add_rows();
  row.set_collective("all_reduce");
  row.set_bytes_begin(begin);
  row.set_bytes_end(end);
  row.set_algorithm(algorithm);
  row.set_slice_bytes(262144);
  row.set_seconds(seconds);
  row.set_seconds_at(begin);
  row.set_reason(algorithm + " 1 ms (measured) at 64 bytes among 2; instead: naive 2 ms");
}

TEST(StatusText, ShowsLinksLevelsAndTheTuningTable) {
  v1::Status status;
  v1::LinkStatus& link = *status.add_links();
  link.set_node_a("a");
  link.set_node_b("b");
  link.set_latency_seconds(30e-6);
  link.set_bytes_per_second(1.25e8);
  link.set_message_seconds(2e-6);
  link.set_samples(30);
  link.set_since_seconds(7);
  v1::JobStatus& job = *status.add_jobs();
  job.set_state("running");
  v1::Level& level = *job.add_levels();
  level.add_groups(3);
  level.add_groups(2);
  level.set_algorithm("ring");
  v1::Level& across = *job.add_levels();
  across.add_groups(2);
  across.set_algorithm("direct");
  across.set_latency_seconds(200e-6);
  across.set_bytes_per_second(1.25e8);
  job.mutable_tuning()->set_version(4);
  AddRow(*job.mutable_tuning(), 0, 2048, "direct", 50e-6);
  AddRow(*job.mutable_tuning(), 2048, 4096, "direct", 60e-6);
  AddRow(*job.mutable_tuning(), 4096, UINT64_MAX, "ring", 2e-3);
  for (const double ratio : {0.9, 1.2}) {
    v1::RowMeasured& measured = *job.add_measured();
    measured.set_row(ratio < 1 ? 0 : 1);
    measured.set_ops(16);
    measured.set_ratio(ratio);
  }
  const std::string text = StatusText(status);
  EXPECT_THAT(text, HasSubstr("a - b  30.0 us  1.00 Gbit/s  2.0 us       30       7 s ago"));
  EXPECT_THAT(
      text,
      HasSubstr("levels: groups of 3,2 by ring; groups of 2 by direct (200.0 us, 1.00 Gbit/s)\n"));
  EXPECT_THAT(text, HasSubstr("tuning table 4:"));
  EXPECT_THAT(text,
              HasSubstr("all_reduce  0     4KiB   direct     256KiB  50.0 us at 0 to 60.0 us at "
                        "2KiB  0.90..1.20 of it (32 ops)  measured; instead: naive 2 ms"))
      << "two rows that choose alike are one line";
  EXPECT_THAT(text, HasSubstr("all_reduce  4KiB  -      ring"));
}

TEST(StatusText, SaysWhenARunningJobHasNoTable) {
  v1::Status status;
  status.add_jobs()->set_state("running");
  EXPECT_THAT(StatusText(status), HasSubstr("no links are measured"));
}

}  // namespace
}  // namespace maypole::cli
