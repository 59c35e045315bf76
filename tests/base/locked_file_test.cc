// SPDX-License-Identifier: Apache-2.0
#include "lib/base/locked_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using std::chrono::milliseconds;

// Open files of this process that are, or were, the one at `path`.
int DescriptorsOf(const std::string& path) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    found += std::filesystem::read_symlink(entry.path(), gone) == path ? 1 : 0;
  }
  return found;
}

TEST(LockedFileTest, OneAtATimeHoweverItsNameMoves) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  LockedFile first{milliseconds(0)};
  ASSERT_TRUE(first.Open(path, /*create=*/true).ok());
  // It waits for the file that is there now, not for the one that takes its place.
  absl::Status waited;
  std::thread second([&] {
    LockedFile file{milliseconds(500)};
    waited = file.Open(path, /*create=*/true);
  });
  while (DescriptorsOf(path) < 2) std::this_thread::yield();
  EXPECT_TRUE(first.Replace("new", LockedFile::Old::kDrop).ok());
  second.join();
  EXPECT_TRUE(absl::IsAborted(waited)) << waited;
  EXPECT_TRUE(first.Append(" and more").ok());
  EXPECT_EQ(ReadText(path), "new and more");
}

TEST(LockedFileTest, KeepsEveryOldFile) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  std::ofstream(path) << "zero";
  for (const char* text : {"one", "two", "three"}) {
    LockedFile file{milliseconds(0)};
    ASSERT_TRUE(file.Open(path, /*create=*/true).ok());
    ASSERT_TRUE(file.Replace(text, LockedFile::Old::kKeep).ok());
  }
  EXPECT_EQ(ReadText(path), "three");
  EXPECT_EQ(ReadText(path + ".previous"), "zero");
  EXPECT_EQ(ReadText(path + ".previous.2"), "one");
  EXPECT_EQ(ReadText(path + ".previous.3"), "two");
}

TEST(LockedFileTest, AnEmptyFileOfItsOwnIsNotLeftBehind) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  LockedFile file{milliseconds(0)};
  ASSERT_TRUE(file.Open(path, /*create=*/true).ok());
  EXPECT_TRUE(std::filesystem::exists(path));
  file.Close();
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "";
  ASSERT_TRUE(file.Open(path, /*create=*/true).ok());
  file.Close();
  EXPECT_TRUE(std::filesystem::exists(path)) << "somebody else's";
}

TEST(LockedFileTest, KeepsLinksAndPermissions) {
  const TempFolder folder;
  std::ofstream(folder / "real") << "old";
  std::filesystem::permissions(folder / "real",
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  std::filesystem::create_symlink("real", folder / "link");
  {
    LockedFile file{milliseconds(0)};
    ASSERT_TRUE(file.Open(folder / "link", /*create=*/true).ok());
    ASSERT_TRUE(file.Replace("new", LockedFile::Old::kKeep).ok());
  }
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(ReadText(folder / "real"), "new");
  EXPECT_EQ(ReadText(folder / "real.previous"), "old");
  struct stat facts {};
  ASSERT_EQ(stat((folder / "real").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
}

}  // namespace
}  // namespace roofbench
