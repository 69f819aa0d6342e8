#include "agent/segment/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/client/fake_agent.h"

namespace maypole::agent {
namespace {

using testing::HasSubstr;

class ListenerTest : public testing::Test {
 protected:
  ~ListenerTest() override { std::filesystem::remove_all(directory_); }

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
  std::filesystem::create_directories(directory_ / "sub");
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(Listener::Create(path_).ok());
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
