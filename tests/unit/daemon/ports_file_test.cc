#include "daemon/ports_file.h"

#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>

namespace maypole::daemon {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PortsFile, HoldsThePortsAndLeavesNothingElse) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "ports_file_test";
  std::filesystem::create_directories(folder);
  const std::string path = folder / "ports.json";
  ASSERT_TRUE(WritePortsFile(path, {{"http", 2}, {"grpc", 1}}).ok());
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "{\"grpc\":1,\"http\":2}\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(PortsFile, WithoutAPathIsNotWanted) {
  EXPECT_TRUE(WritePortsFile("", {{"grpc", 1}}).ok());
}

TEST(PortsFile, ThatCannotBeWrittenIsAnErrorWithPathAndReason) {
  const absl::Status status = WritePortsFile("/nowhere/ports.json", {{"grpc", 1}});
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(
          HasSubstr("--ports-file"), HasSubstr("/nowhere/ports.json"), HasSubstr("No such file")));
}

TEST(PortsFile, ReplacesNothingButARegularFile) {
  const std::string path = std::filesystem::path(testing::TempDir()) / "ports_file_test.fifo";
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = WritePortsFile(path, {{"grpc", 1}});
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr("no regular file")));
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace maypole::daemon
