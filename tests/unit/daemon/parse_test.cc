#include "daemon/parse.h"

#include <gmock/gmock.h>

namespace maypole::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& value) {
  return value.ok() ? "" : std::string(value.status().message());
}

TEST(ParseBytes, TakesEveryUnit) {
  const std::pair<const char*, std::uint64_t> cases[] = {{"0", 0},
                                                         {"4096", 4096},
                                                         {"7B", 7},
                                                         {"64KiB", 65536},
                                                         {"64kib", 65536},
                                                         {"25MB", 25'000'000},
                                                         {"256MiB", 256ull << 20},
                                                         {"1.5GiB", 3ull << 29},
                                                         {"2TB", 2'000'000'000'000},
                                                         {"1TiB", 1ull << 40}};
  for (const auto& [text, bytes] : cases) {
    EXPECT_EQ(ParseBytes(text).value_or(~0ull), bytes) << text;
  }
}

TEST(ParseBytes, RefusesTheRestNamingIt) {
  for (const char* text : {"",
                           "x",
                           "-1",
                           "12q",
                           "1 MB",
                           "MB",
                           "1..5",
                           "1.2.3",
                           ".",
                           "0x10",
                           "1e3",
                           "9999999999999999999999",
                           "9000000000TiB",
                           "inf",
                           "nan"}) {
    EXPECT_THAT(ErrorOf(ParseBytes(text)),
                AllOf(HasSubstr("\"" + std::string(text) + "\""), HasSubstr("64KiB")))
        << text;
  }
}

TEST(ParseBytes, TakesNoBits) {
  for (const char* text : {"25Gb", "1Kib", "5Mb"}) {
    EXPECT_THAT(ErrorOf(ParseBytes(text)),
                AllOf(HasSubstr("\"" + std::string(text) + "\""), HasSubstr("b means bits")))
        << text;
  }
}

TEST(ParseDuration, TakesEveryUnit) {
  using namespace std::chrono_literals;
  const std::pair<const char*, Duration> cases[] = {{"0", 0ns},
                                                    {"7ns", 7ns},
                                                    {"5us", 5us},
                                                    {"250ms", 250ms},
                                                    {"3s", 3s},
                                                    {"1.5s", 1500ms},
                                                    {"2min", 2min},
                                                    {"1h", 1h}};
  for (const auto& [text, duration] : cases) {
    EXPECT_EQ(ParseDuration(text).value_or(Duration(-1)), duration) << text;
  }
}

TEST(ParseDuration, RefusesTheRestNamingIt) {
  for (const char* text : {"", "3", "-1s", "3 s", "s", "3d", "99999999999h"}) {
    EXPECT_THAT(ErrorOf(ParseDuration(text)),
                AllOf(HasSubstr("\"" + std::string(text) + "\""), HasSubstr("250ms")))
        << text;
  }
}

TEST(ParseBitRate, TakesTheUsualSpellings) {
  for (const char* text :
       {"25Gbps", "25gbit", "25Gbit/s", "25 Gbit/s", "25000Mbps", "25000000000bps"}) {
    EXPECT_EQ(ParseBitRate(text).value_or(0), 25'000'000'000u) << text;
  }
  for (const char* text :
       {"", "0Gbps", "25", "25GB/s", "fast", "/s", " ", " Gbps", "25  Gbps", "2 5Gbps", "25 "}) {
    EXPECT_THAT(ErrorOf(ParseBitRate(text)), HasSubstr("25Gbps")) << text;
  }
  for (const char* text : {"25GB", "25GB/s", "25 GBps"}) {
    EXPECT_THAT(ErrorOf(ParseBitRate(text)), HasSubstr("B means bytes: use 200Gbps")) << text;
  }
}

TEST(FormatBitRate, IsReadBackExactly) {
  for (const char* text : {"25Gbps", "1Tbps", "1500Mbps", "7bps"}) {
    EXPECT_EQ(FormatBitRate(*ParseBitRate(text)), text);
  }
}

TEST(ParseInteger, KeepsToItsRange) {
  EXPECT_EQ(ParseInteger("0", 0, 3).value_or(-1), 0);
  EXPECT_EQ(ParseInteger("3", 0, 3).value_or(-1), 3);
  EXPECT_EQ(ParseInteger("-3", -3, 3).value_or(0), -3);
  for (const char* text : {"4", "-1", "", "1x", "1.0", " 1", "99999999999999999999"}) {
    EXPECT_THAT(ErrorOf(ParseInteger(text, 0, 3)),
                AllOf(HasSubstr("\"" + std::string(text) + "\""), HasSubstr("0 to 3")))
        << text;
  }
}

TEST(ParseHostPort, TakesNamesAndBothFamilies) {
  EXPECT_EQ(ParseHostPort("node-a:7700").value_or(HostPort{}), (HostPort{"node-a", 7700}));
  EXPECT_EQ(ParseHostPort("10.0.0.1:1").value_or(HostPort{}), (HostPort{"10.0.0.1", 1}));
  EXPECT_EQ(ParseHostPort("[fd00::1]:65535").value_or(HostPort{}), (HostPort{"fd00::1", 65535}));
}

TEST(ParseHostPort, RefusesTheRestNamingIt) {
  for (const char* text : {"",
                           "node",
                           ":7700",
                           "node:",
                           "node:0",
                           "node:65536",
                           "fd00::1:7700",
                           "[]:1",
                           "a b:1",
                           "http://a:1"}) {
    EXPECT_THAT(ErrorOf(ParseHostPort(text)),
                AllOf(HasSubstr("\"" + std::string(text) + "\""), HasSubstr("host:port")))
        << text;
  }
}

TEST(ParseByteRange, TakesRangesAndSingleSizes) {
  EXPECT_EQ(ParseByteRange("4KiB..1MiB").value_or(ByteRange{}), (ByteRange{4096, 1 << 20}));
  EXPECT_EQ(ParseByteRange("4KiB").value_or(ByteRange{}), (ByteRange{4096, 4096}));
  for (const char* text : {"", "..", "4KiB..", "..4KiB", "8KiB..4KiB", "1..2..3"}) {
    EXPECT_THAT(ErrorOf(ParseByteRange(text)), HasSubstr("\"" + std::string(text) + "\"")) << text;
  }
}

TEST(ParseBool, TakesTheUsualWords) {
  EXPECT_EQ(ParseBool("ON").value_or(false), true);
  EXPECT_EQ(ParseBool("no").value_or(true), false);
  EXPECT_THAT(ErrorOf(ParseBool("maybe")), HasSubstr("\"maybe\""));
}

TEST(Format, IsReadBackExactly) {
  for (std::uint64_t bytes : {0ull, 1ull, 1023ull, 1024ull, 1025ull, 256ull << 20, 3ull << 40}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)).value_or(~0ull), bytes) << FormatBytes(bytes);
  }
  for (std::int64_t ns : {0ll, 1ll, 1'000ll, 1'500'000ll, 3'000'000'000ll}) {
    EXPECT_EQ(ParseDuration(FormatDuration(Duration(ns))).value_or(Duration(-1)), Duration(ns));
  }
  EXPECT_EQ(FormatBytes(256ull << 20), "256MiB");
  EXPECT_EQ(FormatDuration(std::chrono::seconds(3)), "3s");
}

}  // namespace
}  // namespace maypole::daemon
