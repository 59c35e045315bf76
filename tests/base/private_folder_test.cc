// SPDX-License-Identifier: Apache-2.0
#include "lib/base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using testing::HasSubstr;

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777;
}

TEST(PrivateFolder, IsForThisUserAloneWhateverTheUmask) {
  const TempFolder folder;
  for (const mode_t mask : {0000, 0022, 0777}) {
    const std::string base = folder / std::to_string(mask);
    const mode_t before = umask(mask);
    const absl::Status status = MakePrivateFolder(base, "ours");
    umask(before);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(ModeOf(base), 0700);
    EXPECT_EQ(ModeOf(base + "/ours"), 0700);
    EXPECT_TRUE(MakePrivateFolder(base, "ours").ok()) << "again";
  }
}

TEST(PrivateFolder, RefusesWhatOthersCanWrite) {
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  const std::string ours = folder / "base/ours";
  chmod(ours.c_str(), 0770);
  const absl::Status open = MakePrivateFolder(folder / "base", "ours");
  EXPECT_TRUE(absl::IsPermissionDenied(open));
  EXPECT_THAT(std::string(open.message()), HasSubstr(ours + " can be written by other users"));
  chmod(ours.c_str(), 0700);
  chmod((folder / "base").c_str(), 0777);
  EXPECT_TRUE(absl::IsPermissionDenied(MakePrivateFolder(folder / "base", "ours"))) << "ours could be exchanged";
  chmod((folder / "base").c_str(), 01777);
  EXPECT_TRUE(MakePrivateFolder(folder / "base", "ours").ok()) << "as in /tmp, nobody else can";
}

TEST(PrivateFolder, RefusesLinks) {
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  std::filesystem::create_symlink("ours", folder / "base/link");
  EXPECT_THAT(std::string(MakePrivateFolder(folder / "base", "link").message()), HasSubstr("is a symbolic link"));
  EXPECT_TRUE(absl::IsNotFound(CheckPrivate(folder / "base/none")));
}

TEST(PrivateFolder, RefusesWhatAnotherUserOwns) {
  if (geteuid() != 0) GTEST_SKIP() << "giving a folder to another user needs root";
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  constexpr uid_t kNobody = 65534;
  const std::string ours = folder / "base/ours";
  std::ofstream(ours + "/package") << "planted";
  ASSERT_TRUE(CheckPrivate(ours + "/package").ok());
  if (chown((ours + "/package").c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no other user is known here";
  EXPECT_THAT(std::string(CheckPrivate(ours + "/package").message()), HasSubstr("belongs to another user"));
  ASSERT_EQ(chown(ours.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(std::string(MakePrivateFolder(folder / "base", "ours").message()), HasSubstr("belongs to another user"));
}

}  // namespace
}  // namespace roofbench
