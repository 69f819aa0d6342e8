// Base of the tests with real processes: each has a time box, and must leave nothing behind.
//
// After each test: no process that it started (directly or not), nothing of ours in /dev/shm, and
// an empty $TMPDIR, which is a fresh folder per test: all sockets, logs and working folders lie
// there.
#pragma once

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace maypole::test {

class IntegrationTest : public ::testing::Test {
 protected:
  static constexpr unsigned kTimeBoxSeconds = 60;

  // Ends the whole process, and with it its children, when the time is up.
  IntegrationTest();
  ~IntegrationTest() override;

  void TearDown() override;

  // $TMPDIR.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::string mark_;  // in the environment of everything that we start
  std::set<std::string> shared_memory_;
};

}  // namespace maypole::test
