#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/network_checks.h"
#include "cli/doctor/system_checks.h"
#include "common/unique_fd.h"

namespace maypole::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A folder that stands for / in the checks that read files.
class DoctorFiles : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::string root_ = ::testing::TempDir() + "doctor-" + std::to_string(getpid()) +
                            ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(Doctor, AnUnlimitedOrUnneededMemlockIsFineAndAShortOneUnderRdmaFails) {
  EXPECT_EQ(CheckMemlock(RLIM_INFINITY, true).level, Level::kOk);
  EXPECT_EQ(CheckMemlock(65536, false).level, Level::kOk);
  const Finding finding = CheckMemlock(65536, true);
  EXPECT_EQ(finding.level, Level::kFail);
  EXPECT_THAT(finding.text, HasSubstr("64KiB"));
  EXPECT_THAT(finding.remedy, HasSubstr("IPC_LOCK"));
}

TEST(Doctor, FewOpenFilesAreAWarningWithTheRemedy) {
  EXPECT_EQ(CheckOpenFiles(4096).level, Level::kOk);
  EXPECT_EQ(CheckOpenFiles(RLIM_INFINITY).level, Level::kOk);
  EXPECT_THAT(CheckOpenFiles(1024).remedy, HasSubstr("ulimit -n 4096"));
}

TEST(Doctor, SealedMemfdsWorkWhereTheTestsRun) {
  EXPECT_EQ(CheckMemfd().level, Level::kOk);
}

TEST(Doctor, OneCoreIsAWarning) {
  EXPECT_EQ(CheckCores(1).level, Level::kWarn);
  EXPECT_EQ(CheckCores(2).level, Level::kOk);
}

TEST_F(DoctorFiles, HugePagesForSharedMemoryShouldNotBeOff) {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  EXPECT_EQ(CheckHugePages(root_).level, Level::kOk);
  Write(path, "always within_size advise [never] deny force\n");
  EXPECT_EQ(CheckHugePages(root_).level, Level::kWarn);
  Write(path, "always within_size [advise] never deny force\n");
  EXPECT_THAT(CheckHugePages(root_).text, HasSubstr("advise"));
}

TEST_F(DoctorFiles, OnlyRdmaPortsThatAreActiveCount) {
  EXPECT_THAT(RdmaDevices(root_), IsEmpty());
  Write("/sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  Write("/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
  EXPECT_THAT(RdmaDevices(root_), ElementsAre("mlx5_0:1"));
}

TEST_F(DoctorFiles, GpusAreCounted) {
  EXPECT_THAT(CheckGpu(root_).text, HasSubstr("no NVIDIA driver"));
  Write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX 580\n");
  Write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "");
  Write("/proc/driver/nvidia/gpus/0000:02:00.0/information", "");
  EXPECT_THAT(CheckGpu(root_).text, HasSubstr("2 with NVRM version"));
}

TEST(Doctor, UcxIsReadFromWhatItsToolPrints) {
  const Finding found = CheckUcx("# Version 1.13.1\n# Git branch ''\n",
                                 "#      Transport: tcp\n#         Device: eth0\n"
                                 "#      Transport: tcp\n#         Device: lo\n");
  EXPECT_EQ(found.level, Level::kOk);
  EXPECT_EQ(found.text, "version 1.13.1; transports: tcp; devices: eth0 lo");
  EXPECT_EQ(CheckUcx("# Version 1.13.1\n", "#      Transport: self\n").level, Level::kFail);
  EXPECT_EQ(CheckUcx("", "").level, Level::kWarn);
}

TEST(Doctor, AddressesThatStrangersReachAreTold) {
  for (const char* closed : {"10.1.2.3",
                             "127.0.0.1",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.168.1.1",
                             "169.254.1.1",
                             "100.64.0.1",
                             "::1",
                             "fe80::1",
                             "fd00::1"}) {
    EXPECT_FALSE(IsPublicAddress(closed)) << closed;
  }
  for (const char* open : {"8.8.8.8", "172.32.0.1", "11.0.0.1", "100.128.0.1", "2001:db8::1"}) {
    EXPECT_TRUE(IsPublicAddress(open)) << open;
  }
}

TEST(Doctor, ThePeerPortBelongsOnAChosenClosedInterface) {
  const std::vector<InterfaceAddress> addresses = {
      {"lo", "127.0.0.1"}, {"eth0", "8.8.8.8"}, {"eth1", "10.0.0.3"}};
  EXPECT_EQ(CheckExposure("", addresses).level, Level::kWarn);
  EXPECT_EQ(CheckExposure("eth1", addresses).level, Level::kOk);
  EXPECT_THAT(CheckExposure("eth0", addresses).text, HasSubstr("8.8.8.8"));
  EXPECT_EQ(CheckExposure("eth0", addresses).level, Level::kFail);
  EXPECT_THAT(CheckExposure("eth9", addresses).text, HasSubstr("there are: eth0 eth1 lo"));
  EXPECT_EQ(CheckExposure("eth9", addresses).level, Level::kFail);
}

TEST(Doctor, EveryInterfaceOfAListIsLookedAtAndDevicesAndAutoAreNot) {
  const std::vector<InterfaceAddress> addresses = {
      {"lo", "127.0.0.1"}, {"eth0", "8.8.8.8"}, {"eth1", "10.0.0.1"}};
  EXPECT_EQ(CheckExposure("mlx5_0:1,eth1", addresses).level, Level::kOk);
  EXPECT_THAT(CheckExposure("lo,eth1", addresses).text,
              HasSubstr("lo (127.0.0.1), eth1 (10.0.0.1)"));
  EXPECT_EQ(CheckExposure("eth1,eth0", addresses).level, Level::kFail);
  EXPECT_THAT(CheckExposure("eth1,eth9", addresses).text,
              HasSubstr("interface eth9 has no address"));
  for (const char* open : {"auto", "mlx5_0:1"}) {
    EXPECT_EQ(CheckExposure(open, addresses).level, Level::kWarn) << open;
    EXPECT_THAT(CheckExposure(open, addresses).text, HasSubstr("no interface chosen"));
  }
}

TEST(Doctor, AnAgentThatIsNotThereIsAWarningWithItsPath) {
  EXPECT_THAT(CheckAgentSocket("/nonexistent/agent.sock").text,
              HasSubstr("/nonexistent/agent.sock"));
  EXPECT_EQ(CheckAgentSocket(std::string(200, 'x')).level, Level::kFail);
}

TEST_F(DoctorFiles, OnlyASocketLikeAnAgentsIsTakenForOne) {
  std::filesystem::create_directories(root_);
  for (const auto& [type, level] :
       {std::pair(SOCK_SEQPACKET, Level::kOk), std::pair(SOCK_STREAM, Level::kFail)}) {
    const std::string path = root_ + "/" + std::to_string(type);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    ASSERT_LT(path.size(), sizeof address.sun_path);
    path.copy(address.sun_path, path.size());
    const UniqueFd server(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(server.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(server.get(), 1), 0);
    EXPECT_EQ(CheckAgentSocket(path).level, level);
    EXPECT_THAT(CheckAgentSocket(path).text, HasSubstr(path));
  }
}

}  // namespace
}  // namespace maypole::cli
