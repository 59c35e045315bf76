// SPDX-License-Identifier: Apache-2.0
#include "lib/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  file.Flush();
  EXPECT_EQ(ReadText(path), "old");
  ASSERT_TRUE(file.Finish().ok());
  EXPECT_EQ(ReadText(path), "new");
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST(AtomicFileTest, LeavesNothingBehindWithoutAnEnd) {
  const TempFolder folder;
  {
    AtomicFile file;
    ASSERT_TRUE(file.Open(folder / "out.json").ok());
    file.stream() << "half";
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out.json.part"));
}

TEST(AtomicFileTest, FullDiskIsToldWithTheWayOut) {
  AtomicFile file;
  ASSERT_TRUE(file.Open("/dev/full").ok());
  file.stream() << "text";
  file.Flush();
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
