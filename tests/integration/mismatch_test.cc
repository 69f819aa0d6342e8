// Ranks that disagree on an op are told so before any byte moves, and the job goes on.
#include <set>

#include <gmock/gmock.h>

#include "tests/support/integration_test.h"
#include "tests/support/ops.h"
#include "tests/support/test_cluster.h"

namespace maypole::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MismatchTest : public IntegrationTest {};

TEST_F(MismatchTest, AShapeThatDiffersIsRefusedOnAllRanksBeforeBytesMove) {
  constexpr std::size_t kCount = 1 << 20;
  TestCluster cluster({.nodes = 2});
  std::vector<Session> sessions = cluster.ConnectAll(2);
  auto tensors = Tensors(sessions, kCount);
  tensors[3] = tensors[3].first(kCount - 24);
  const std::uint64_t sent_before = sessions[0].AgentStats().wire_sent_bytes;
  const std::vector<std::string> texts = AllReduceAll(sessions, tensors, {.name = "w"});
  EXPECT_EQ(std::set(texts.begin(), texts.end()).size(), 1U) << ::testing::PrintToString(texts);
  EXPECT_THAT(texts[0],
              AllOf(StartsWith("mismatch: "),
                    HasSubstr("all_reduce \"w\" #0"),
                    HasSubstr("ranks 0-2 have 1048576"),
                    HasSubstr("rank 3 has 1048552"),
                    HasSubstr("[ranks=3]")));
  // The announces, and heartbeats perhaps; the tensors have 4 MiB.
  EXPECT_LT(sessions[0].AgentStats().wire_sent_bytes - sent_before, 4096U);
  EXPECT_LT(sessions[2].AgentStats().wire_sent_bytes, 8192U);
  for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
    EXPECT_THAT(tensors[rank], Each(static_cast<float>(rank + 1)));
  }
  tensors[3] = {tensors[3].data(), kCount};
  EXPECT_THAT(AllReduceAll(sessions, tensors, {.name = "w"}), Each("ok"));
  EXPECT_EQ(tensors[3].back(), SumOfRanks(4));
}

}  // namespace
}  // namespace maypole::test
