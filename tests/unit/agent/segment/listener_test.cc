#include "agent/segment/listener.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/client/fake_agent.h"

namespace maypole::agent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ListenerTest : public testing::Test {
 protected:
  ~ListenerTest() override { std::filesystem::remove_all(directory_); }

  // A socket file that somebody has bound.
  UniqueFd BindAt(int type) const {
    std::filesystem::create_directories(directory_ / "sub");
    UniqueFd fd(::socket(AF_UNIX, type, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  std::filesystem::path directory_ = test::MakeTempDirectory();
  std::string path_ = (directory_ / "sub" / "agent.sock").string();
};

TEST_F(ListenerTest, MakesTheDirectoryAndRemovesItsSocketAtTheEnd) {
  auto listener = Listener::Create(path_);
  ASSERT_TRUE(listener.ok()) << listener.status();

  struct stat status {};

  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0666u);
  listener->reset();
  EXPECT_NE(::stat(path_.c_str(), &status), 0);
}

TEST_F(ListenerTest, ASecondAgentIsRefusedAndTheFirstLives) {
  auto first = Listener::Create(path_);
  ASSERT_TRUE(first.ok());
  const auto second = Listener::Create(path_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(path_));
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE((*first)->Accept().valid());  // the second's question
}

TEST_F(ListenerTest, ASocketThatADeadAgentLeftIsReplaced) {
  BindAt(SOCK_SEQPACKET).Reset();
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(Listener::Create(path_).ok());
}

TEST_F(ListenerTest, ASocketOfAnotherKindOfProgramIsLeftAlone) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM}) {
    UniqueFd other = BindAt(type);
    ::listen(other.get(), 1);
    const auto listener = Listener::Create(path_);
    EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(listener.status().message()),
                AllOf(HasSubstr(path_), HasSubstr("another program's"), HasSubstr("--socket")));
    EXPECT_TRUE(std::filesystem::exists(path_));
    other.Reset();
    std::filesystem::remove(path_);
  }
}

TEST_F(ListenerTest, ASocketThatCannotBeAskedIsLeftAlone) {
  const UniqueFd other = BindAt(SOCK_SEQPACKET);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  std::vector<UniqueFd> taken;
  do {
    taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  } while (taken.back().valid());
  taken.resize(taken.size() - 2);  // one is left, which the lock on the directory takes
  const auto listener = Listener::Create(path_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(listener.status().message()),
              AllOf(HasSubstr("cannot tell"), HasSubstr(std::strerror(EMFILE))));
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, WhatIsNoSocketIsLeftAlone) {
  std::filesystem::create_directories(directory_ / "sub");
  std::ofstream(path_) << "precious";
  const auto listener = Listener::Create(path_);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, ASocketThatSomebodyElsePutThereIsNotRemoved) {
  auto first = Listener::Create(path_);
  ASSERT_TRUE(first.ok());
  std::filesystem::remove(path_);
  auto second = Listener::Create(path_);
  ASSERT_TRUE(second.ok());
  first->reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, BadPathsAreRefusedWithTheirReason) {
  EXPECT_EQ(Listener::Create("").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Listener::Create(std::string(108, 'p')).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::ofstream(directory_ / "file") << "x";
  EXPECT_EQ(Listener::Create(directory_ / "file" / "agent.sock").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace maypole::agent
