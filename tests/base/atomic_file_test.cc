// SPDX-License-Identifier: Apache-2.0
#include "lib/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AtomicFileTest, AppearsWhenItIsFinished) {
  const TempFolder folder;
  const std::string path = folder / "out.json";
  std::ofstream(path) << "old";
  AtomicFile file;
  ASSERT_TRUE(file.Open(path).ok());
  file.stream() << "new";
  EXPECT_EQ(ReadText(path), "old");
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(ReadText(path), "new");
  EXPECT_EQ(folder.names(), std::set<std::string>{"out.json"});
}

TEST(AtomicFileTest, OfTwoThatWriteTheSameTheLastWinsWhole) {
  const TempFolder folder;
  AtomicFile first;
  AtomicFile second;
  ASSERT_TRUE(first.Open(folder / "out.json").ok());
  ASSERT_TRUE(second.Open(folder / "out.json").ok());
  first.stream() << std::string(100'000, 'a');
  second.stream() << "b";
  ASSERT_TRUE(second.Finish().ok());
  EXPECT_EQ(ReadText(folder / "out.json"), "b");
  ASSERT_TRUE(first.Finish().ok());
  EXPECT_EQ(ReadText(folder / "out.json"), std::string(100'000, 'a'));
  EXPECT_EQ(folder.names(), std::set<std::string>{"out.json"});
}

TEST(AtomicFileTest, WritesToNothingThatLiesInTheWay) {
  const TempFolder folder;
  std::ofstream(folder / "victim") << "precious";
  AtomicFile file;
  ASSERT_TRUE(file.Open(folder / "out.json").ok());
  // Laid while it runs, under every name that it may take.
  std::filesystem::create_symlink("victim", folder / "out.json.part");
  for (int number = 0; number < 3; ++number) {
    std::filesystem::create_symlink("victim", folder / absl::StrCat("out.json.", getpid(), "-", number, ".part"));
  }
  file.stream() << "new";
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(ReadText(folder / "out.json"), "new");
  EXPECT_EQ(ReadText(folder / "victim"), "precious");
}

TEST(AtomicFileTest, KeepsPermissions) {
  const TempFolder folder;
  const std::string path = folder / "out.json";
  std::ofstream(path) << "secret";
  constexpr auto kMine = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(path, kMine);
  AtomicFile file;
  ASSERT_TRUE(file.Open(path).ok());
  file.stream() << "new";
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), kMine);
}

TEST(AtomicFileTest, WritesThroughALink) {
  const TempFolder folder;
  for (const char* target : {"real.json", "not/there/../../yet.json"}) {
    std::filesystem::remove(folder / "out.json");
    std::filesystem::create_directories(folder / "not/there");
    std::ofstream(folder / "real.json") << "old";
    std::filesystem::create_symlink(target, folder / "out.json");
    AtomicFile file;
    ASSERT_TRUE(file.Open(folder / "out.json").ok());
    file.stream() << "new";
    ASSERT_TRUE(file.Finish().ok());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "out.json"));
    EXPECT_EQ(ReadText(folder / target), "new");
  }
  std::filesystem::create_symlink("loop", folder / "loop");
  AtomicFile file;
  EXPECT_THAT(std::string(file.Open(folder / "loop").message()), HasSubstr("symbolic links"));
}

TEST(AtomicFileTest, LeavesNothingBehindWithoutAnEnd) {
  const TempFolder folder;
  {
    AtomicFile file;
    ASSERT_TRUE(file.Open(folder / "out.json").ok());
    file.stream() << "half";
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFileTest, FullDiskIsToldWithTheWayOut) {
  AtomicFile file;
  ASSERT_TRUE(file.Open("/dev/full").ok());
  file.stream() << "text";
  EXPECT_THAT(std::string(file.Finish().message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"), HasSubstr("make room")));
  EXPECT_FALSE(std::filesystem::exists("/dev/full.part"));
}

TEST(AtomicFileTest, DevicesAreWrittenInPlace) {
  AtomicFile file;
  ASSERT_TRUE(file.Open("/dev/null").ok());
  file.stream() << "text";
  EXPECT_TRUE(file.Finish().ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null")) << "renaming over it would spoil the machine";
}

TEST(AtomicFileTest, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  AtomicFile file;
  EXPECT_THAT(std::string(file.Open(folder / "no/out.json").message()), HasSubstr("make its folder first"));
  EXPECT_THAT(std::string(file.Open(folder / "").message()), HasSubstr("name a file in it"));
  EXPECT_THAT(std::string(file.Open(folder / "file/out.json").message()), HasSubstr("a part of the path is a file"));
}

}  // namespace
}  // namespace roofbench
