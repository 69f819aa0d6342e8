#include "cli/janitor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace maypole::cli {
namespace {

TEST(Janitor, TheFolderIsPrivateAndGoneAfterwards) {
  std::string folder;
  {
    const absl::StatusOr<Janitor> janitor = Janitor::Start();
    ASSERT_TRUE(janitor.ok());
    folder = janitor->folder();
    struct stat info;
    ASSERT_EQ(stat(folder.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    std::ofstream(folder + "/file") << "text";
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Janitor, AFolderThatCannotBeMadeIsAnError) {
  setenv("TMPDIR", "/nonexistent", 1);
  const absl::Status status = Janitor::Start().status();
  unsetenv("TMPDIR");
  EXPECT_FALSE(status.ok());
}

// A process that dies by SIGKILL and leaves a watched group, a forgotten group, and a folder. Both
// groups hold a pipe of their own.
struct Victim {
  pid_t pid;
  UniqueFd watched;
  UniqueFd forgotten;
  std::string folder;
  pid_t forgotten_pid;
};

pid_t StartSleeper(int pipe) {
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    dup2(pipe, 1);
    close_range(3, ~0U, 0);
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  setpgid(pid, pid);
  return pid;
}

Victim StartVictim() {
  int watched[2];
  int forgotten[2];
  int told[2];
  EXPECT_EQ(pipe2(watched, O_CLOEXEC) + pipe2(forgotten, O_CLOEXEC) + pipe2(told, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const absl::StatusOr<Janitor> janitor = Janitor::Start();
    const pid_t first = StartSleeper(watched[1]);
    const pid_t second = StartSleeper(forgotten[1]);
    janitor->Watch(first);
    janitor->Watch(second);
    janitor->Forget(second);
    const std::string text = std::to_string(second) + " " + janitor->folder() + "\n";
    (void)!write(told[1], text.data(), text.size());
    pause();
  }
  for (const int end : {watched[1], forgotten[1], told[1]}) {
    close(end);
  }
  Victim victim{pid, UniqueFd(watched[0]), UniqueFd(forgotten[0]), "", 0};
  std::string text;
  for (char letter = 0; read(told[0], &letter, 1) == 1 && letter != '\n';) {
    text += letter;
  }
  close(told[0]);
  victim.forgotten_pid = std::stoi(text);
  victim.folder = text.substr(text.find(' ') + 1);
  return victim;
}

TEST(Janitor, TidiesUpAfterAKilledProcessButSparesWhatWasForgotten) {
  const Victim victim = StartVictim();
  ASSERT_TRUE(std::filesystem::exists(victim.folder));
  kill(victim.pid, SIGKILL);
  waitpid(victim.pid, nullptr, 0);
  char letter = 0;
  EXPECT_EQ(read(victim.watched.get(), &letter, 1), 0);  // closed by the death of the watched group
  EXPECT_EQ(kill(victim.forgotten_pid, SIGKILL), 0);     // was still alive
  EXPECT_EQ(read(victim.forgotten.get(), &letter, 1), 0);
  // The folder goes after the groups; its removal is the janitor's last act.
  for (int tries = 0; tries < 1000 && std::filesystem::exists(victim.folder); ++tries) {
    usleep(5000);
  }
  EXPECT_FALSE(std::filesystem::exists(victim.folder));
}

}  // namespace
}  // namespace maypole::cli
