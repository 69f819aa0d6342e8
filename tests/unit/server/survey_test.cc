#include "server/survey.h"

#include <gmock/gmock.h>

namespace maypole::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

struct SurveyTest : testing::Test {
  Survey survey{[n = std::uint64_t{0}]() mutable { return ++n; }};
  TimePoint now{seconds(1000)};

  static std::string Node(std::size_t i) { return "n" + std::to_string(1000 + i); }

  void AddNodes(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      survey.Add(Node(i));
    }
  }

  std::set<std::string> Nodes(std::size_t count) const {
    std::set<std::string> nodes;
    for (std::size_t i = 0; i < count; ++i) {
      nodes.insert(Node(i));
    }
    return nodes;
  }
};

TEST_F(SurveyTest, EveryPairMeetsOnceAndNobodyIsInTwoProbes) {
  for (const std::size_t count : {2U, 3U, 4U, 7U, 20U, 64U}) {
    Survey fresh{[n = std::uint64_t{0}]() mutable { return ++n; }};
    for (std::size_t i = 0; i < count; ++i) {
      fresh.Add(Node(i));
    }
    std::map<std::string, int> active;
    std::set<LinkTable::Pair> met;
    std::vector<Survey::Probe> running;
    std::size_t steps = 0;
    while (true) {
      for (const Survey::Probe& probe : fresh.Begin(now)) {
        EXPECT_EQ(++active[probe.measures], 1);
        EXPECT_EQ(++active[probe.answers], 1);
        running.push_back(probe);
      }
      if (running.empty()) {
        break;
      }
      ++steps;
      const std::vector<Survey::Probe> round = std::exchange(running, {});
      for (const Survey::Probe& probe : round) {
        const auto pair = fresh.End(probe.id, probe.measures, Survey::Result::kOk, now);
        ASSERT_TRUE(pair);
        EXPECT_TRUE(met.insert(*pair).second);
        --active[probe.measures];
        --active[probe.answers];
      }
    }
    EXPECT_EQ(met.size(), count * (count - 1) / 2);
    EXPECT_LE(steps, count + count % 2) << "as many rounds as a tournament needs";
  }
}

TEST_F(SurveyTest, OfManyNodesEachMeetsABoundedNumber) {
  AddNodes(200);
  std::map<std::string, std::size_t> met;
  for (auto probes = survey.Begin(now); !probes.empty(); probes = survey.Begin(now)) {
    for (const Survey::Probe& probe : probes) {
      ++met[probe.measures];
      ++met[probe.answers];
      survey.End(probe.id, probe.measures, Survey::Result::kOk, now);
    }
  }
  for (const auto& [node, count] : met) {
    EXPECT_EQ(count, kRoundsMax) << node;
  }
}

TEST_F(SurveyTest, OfManyNodesThoseThatArePreferredMeetFirst) {
  AddNodes(200);
  survey.Begin(now);
  std::set<std::string> job;
  for (std::size_t i = 0; i < 8; ++i) {
    job.insert(Node(i * 25));
  }
  survey.Prefer(job);
  EXPECT_TRUE(survey.IsPending(job));
  std::size_t met = 0;
  now += seconds(7);  // the probes that were under way are given up
  for (int round = 0; round < 7; ++round) {
    for (const Survey::Probe& probe : survey.Begin(now)) {
      const bool among = job.contains(probe.measures) && job.contains(probe.answers);
      EXPECT_TRUE(among || (!job.contains(probe.measures) && !job.contains(probe.answers)));
      met += among ? 1 : 0;
      survey.End(probe.id, probe.measures, Survey::Result::kOk, now);
    }
  }
  EXPECT_EQ(met, 28u);
  EXPECT_FALSE(survey.IsPending(job));
}

TEST_F(SurveyTest, OfManyNodesWhoMeetsWhomIsDrawnNowAndThenOnly) {
  AddNodes(100);
  survey.Begin(now);
  survey.Add("new");
  EXPECT_THAT(survey.Begin(now), IsEmpty());
  now += kDrawEvery;
  survey.Begin(now);
  EXPECT_TRUE(survey.IsPending({"new", Node(0), Node(1), Node(2), Node(3), Node(50), Node(99)}));
}

TEST_F(SurveyTest, ANewNodeCostsItsOwnLinksOnly) {
  AddNodes(2);
  const auto first = survey.Begin(now).at(0);
  EXPECT_TRUE(survey.IsPending(Nodes(2)));
  survey.End(first.id, first.measures, Survey::Result::kOk, now);
  EXPECT_FALSE(survey.IsPending(Nodes(2)));
  survey.Add("new");
  const auto second = survey.Begin(now);
  ASSERT_THAT(second, SizeIs(1));
  EXPECT_TRUE(second[0].measures == "new" || second[0].answers == "new");
}

TEST_F(SurveyTest, APairThatIsBusyIsAskedAgainLaterAndLater) {
  AddNodes(2);
  auto probe = survey.Begin(now).at(0);
  Duration last{0};
  for (int i = 0; i < 5; ++i) {
    survey.End(probe.id, probe.measures, Survey::Result::kBusy, now);
    EXPECT_FALSE(survey.IsPending(Nodes(2))) << "a job need not wait for it";
    const TimePoint refused = now;
    std::vector<Survey::Probe> again;
    while ((again = survey.Begin(now)).empty()) {
      now += milliseconds(10);
    }
    EXPECT_GT(now - refused, last);
    last = now - refused;
    probe = again[0];
  }
}

TEST_F(SurveyTest, APairThatDoesNotAnswerIsLeftUntilOneComesAnew) {
  AddNodes(2);
  survey.Begin(now);
  now += seconds(7);
  EXPECT_THAT(survey.Begin(now), IsEmpty());
  EXPECT_FALSE(survey.IsPending(Nodes(2)));
  survey.Remove(Node(0));
  survey.Add(Node(0));
  EXPECT_THAT(survey.Begin(now), IsEmpty()) << "the same process, with a new stream";
  survey.Remove(Node(0));
  survey.Forget(Node(0));
  survey.Add("another");  // in its place
  EXPECT_THAT(survey.Begin(now), SizeIs(1));
}

TEST_F(SurveyTest, OnlyWhoMeasuresEndsAProbe) {
  AddNodes(2);
  const auto probe = survey.Begin(now).at(0);
  EXPECT_FALSE(survey.End(probe.id, probe.answers, Survey::Result::kOk, now));
  EXPECT_FALSE(survey.End(probe.id + 1, probe.measures, Survey::Result::kOk, now));
  EXPECT_TRUE(survey.End(probe.id, probe.measures, Survey::Result::kOk, now));
  EXPECT_FALSE(survey.End(probe.id, probe.measures, Survey::Result::kOk, now));
}

TEST_F(SurveyTest, ANodeThatGoesEndsItsProbes) {
  AddNodes(3);
  const auto probe = survey.Begin(now).at(0);
  survey.Remove(probe.answers);
  EXPECT_FALSE(survey.End(probe.id, probe.measures, Survey::Result::kOk, now));
  EXPECT_THAT(survey.Begin(now), SizeIs(1)) << "the two that are left";
}

TEST_F(SurveyTest, OnRequestAllMeetAnew) {
  AddNodes(2);
  const auto probe = survey.Begin(now).at(0);
  survey.End(probe.id, probe.measures, Survey::Result::kOk, now);
  EXPECT_THAT(survey.Begin(now), IsEmpty());
  survey.ForgetAll();
  EXPECT_THAT(survey.Begin(now), SizeIs(1));
}

}  // namespace
}  // namespace maypole::server
