#include "cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

using ::testing::HasSubstr;

constexpr double kLongSeconds = 60;

ChildOptions Shell(const std::string& script) {
  ChildOptions options;
  options.argv = {"sh", "-c", script};
  return options;
}

int CodeOf(const ChildOptions& options) {
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  return child.ok() ? child->WaitFor(kLongSeconds).value().code() : -1;
}

bool IsAlive(pid_t pid) {
  return kill(pid, 0) == 0;
}

// Reads the one number that a child writes to a pipe.
pid_t ReadNumber(int fd) {
  std::string text;
  for (char letter = 0; read(fd, &letter, 1) == 1 && letter != '\n';) {
    text += letter;
  }
  return std::stoi(text);
}

TEST(ChildProcess, TellsExitCodesAndSignalsAsAShellDoes) {
  EXPECT_EQ(CodeOf(Shell("exit 0")), 0);
  EXPECT_EQ(CodeOf(Shell("exit 3")), 3);
  EXPECT_EQ(CodeOf(Shell("kill -9 $$")), 128 + SIGKILL);
}

TEST(ChildProcess, AProgramThatCannotRunIsAnErrorWithItsName) {
  ChildOptions options;
  options.argv = {"/nonexistent/program"};
  EXPECT_THAT(std::string(ChildProcess::Start(options).status().message()),
              HasSubstr("/nonexistent/program: No such file"));
}

TEST(ChildProcess, GivenVariablesReplaceInheritedOnes) {
  setenv("MAYPOLE_CLI_TEST", "old", 1);
  ChildOptions options = Shell("[ \"$MAYPOLE_CLI_TEST\" = new ] && [ -n \"$PATH\" ]");
  options.environment = {"MAYPOLE_CLI_TEST=new"};
  EXPECT_EQ(CodeOf(options), 0);
}

TEST(ChildProcess, InheritsNoVariableThatItIsToDoWithout) {
  setenv("MAYPOLE_CLI_TEST", "ours", 1);
  ChildOptions options = Shell("[ -z \"${MAYPOLE_CLI_TEST+set}\" ] && [ -n \"$PATH\" ]");
  options.without = {"MAYPOLE_CLI_TEST", "MAYPOLE_CLI_TEST_UNSET"};
  EXPECT_EQ(CodeOf(options), 0);
}

TEST(ChildProcess, HasNoOtherDescriptorsThanWithAnInputOfOurs) {
  const std::string count = "set -- /proc/$$/fd/*; exit $#";
  ChildOptions given = Shell(count);
  const UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  given.stdin_fd = input.get();
  EXPECT_EQ(CodeOf(Shell(count)), CodeOf(given));
}

TEST(ChildProcess, HasAnInputAlsoWhereOursIsClosed) {
  const pid_t closed = fork();
  if (closed == 0) {
    close(0);
    _exit(CodeOf(Shell("[ -e /proc/$$/fd/0 ]")));
  }
  int status = 0;
  waitpid(closed, &status, 0);
  EXPECT_EQ(ExitStatus(status).code(), 0);
}

TEST(ChildProcess, HasNothingToReadUnlessGiven) {
  EXPECT_EQ(CodeOf(Shell("! read line")), 0);
}

TEST(ChildProcess, EndsTogetherWithWhatItStarted) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  ChildOptions options = Shell("sleep 1000 & echo $!");
  options.stdout_fd = writer.get();
  absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
  ASSERT_TRUE(child.ok());
  writer.Reset();
  const pid_t grandchild = ReadNumber(reader.get());
  EXPECT_EQ(child->WaitFor(kLongSeconds).value().code(), 0);
  // The pipe is closed once the grandchild, which holds the other end, is gone.
  char letter = 0;
  EXPECT_EQ(read(reader.get(), &letter, 1), 0);
  EXPECT_GT(grandchild, 0);
}

TEST(ChildProcess, DiesWithItsStarter) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, 0), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    ChildOptions options = Shell("echo $$; exec sleep 1000");
    options.stdout_fd = ends[1];
    const absl::StatusOr<ChildProcess> child = ChildProcess::Start(options);
    pause();
  }
  close(ends[1]);
  EXPECT_TRUE(IsAlive(ReadNumber(ends[0])));
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  // Ends only when the sleeping child, which holds the pipe, is dead.
  char letter = 0;
  EXPECT_EQ(read(ends[0], &letter, 1), 0);
  close(ends[0]);
}

TEST(ChildProcess, WaitForGivesUpInTimeAndTheDestructorKills) {
  pid_t pid = 0;
  {
    absl::StatusOr<ChildProcess> child = ChildProcess::Start(Shell("sleep 1000"));
    ASSERT_TRUE(child.ok());
    EXPECT_FALSE(child->WaitFor(0.01));
    pid = child->pid();
    EXPECT_TRUE(IsAlive(pid));
  }
  EXPECT_FALSE(IsAlive(pid));
}

TEST(EndAll, InsistsWithThoseThatIgnoreSigterm) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  ChildOptions stubborn = Shell("trap '' TERM; echo 1; while :; do sleep 1; done");
  stubborn.stdout_fd = ends[1];
  absl::StatusOr<ChildProcess> first = ChildProcess::Start(stubborn);
  absl::StatusOr<ChildProcess> second = ChildProcess::Start(Shell("exec sleep 1000"));
  ASSERT_TRUE(first.ok() && second.ok());
  ReadNumber(ends[0]);
  EndAll({&*first, &*second}, 0.2);
  EXPECT_EQ(first->Poll().value().code(), 128 + SIGKILL);
  EXPECT_EQ(second->Poll().value().code(), 128 + SIGTERM);
  close(ends[0]);
  close(ends[1]);
}

TEST(RunTool, PassesItsInputAndReportsItsOutputOnFailure) {
  EXPECT_TRUE(RunTool({"grep", "-q", "needle"}, "hay\nneedle\n", -1).ok());
  const absl::Status failed = RunTool({"sh", "-c", "echo complaint >&2; exit 4"}, "", -1);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("exit code 4"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("complaint"));
}

}  // namespace
}  // namespace maypole::cli
