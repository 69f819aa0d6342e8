#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/transport/ucx/address.h"

namespace maypole::agent {
namespace {

TEST(UcxAddress, UnwrapsWhatWasWrapped) {
  for (const std::string& bytes :
       {std::string("x"), std::string(67, '\0'), std::string(300, '\xff')}) {
    const auto unwrapped = UnwrapUcxAddress(WrapUcxAddress(bytes));
    ASSERT_TRUE(unwrapped.ok()) << unwrapped.status();
    EXPECT_EQ(*unwrapped, bytes);
  }
}

TEST(UcxAddress, RefusesEveryDamagedBitAndEveryTruncation) {
  const std::string good = WrapUcxAddress("a worker address of UCX");
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(UnwrapUcxAddress(good.substr(0, i)).ok()) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_FALSE(UnwrapUcxAddress(bad).ok()) << i << " bit " << bit;
    }
  }
  EXPECT_FALSE(UnwrapUcxAddress(good + " ").ok());
}

TEST(UcxAddress, RefusesAnEmptyWorkerAddress) {
  EXPECT_FALSE(UnwrapUcxAddress(WrapUcxAddress("")).ok());
}

TEST(UcxAddress, SaysWhichVersionTheOtherSpeaks) {
  std::string other = WrapUcxAddress("address");
  other[4] = 9;
  EXPECT_THAT(std::string(UnwrapUcxAddress(other).status().message()),
              testing::HasSubstr("version 9, this agent speaks 1"));
}

}  // namespace
}  // namespace maypole::agent
