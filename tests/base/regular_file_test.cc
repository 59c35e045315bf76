// SPDX-License-Identifier: Apache-2.0
#include "lib/base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>

#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Error(const std::string& path) { return std::string(RegularFile::Open(path).status().message()); }

absl::StatusOr<std::string> Piece(const RegularFile& file, uint64_t offset, std::size_t length) {
  std::string text(length, '\0');
  if (absl::Status status = file.Read(offset, std::as_writable_bytes(std::span(text))); !status.ok()) return status;
  return text;
}

TEST(RegularFile, ReadsAnyPartOfIt) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "0123456789";
  auto opened = RegularFile::Open(folder / "file");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const RegularFile file = *std::move(opened);
  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(Piece(file, 3, 4).value(), "3456");
  EXPECT_EQ(Piece(file, 0, 10).value(), "0123456789");
  EXPECT_EQ(Piece(file, 10, 0).value(), "");
  EXPECT_EQ(ReadFile(folder / "file", 10).value(), "0123456789");
}

TEST(RegularFile, OneThatBecomesShorterIsDataLoss) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "0123456789";
  const auto file = RegularFile::Open(folder / "file");
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(folder / "file", 5);
  EXPECT_EQ(Piece(*file, 0, 5).value(), "01234");
  const absl::Status status = Piece(*file, 3, 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(folder / "file"), HasSubstr("ends at byte 5 of the 10 that it had")));
}

TEST(RegularFile, IsNothingElse) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(Error(folder / "pipe"), (folder / "pipe") + ": is a pipe and not a regular file");
  EXPECT_THAT(Error(folder / ""), HasSubstr(": is a folder and not a regular file"));
  EXPECT_EQ(Error("/dev/zero"), "/dev/zero: is a device and not a regular file");
  EXPECT_EQ(RegularFile::Open(folder / "nothing").status().code(), absl::StatusCode::kNotFound);
}

TEST(RegularFile, ALargeOneIsNotReadAsAWhole) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  std::filesystem::resize_file(folder / "file", uint64_t{1} << 40);  // zeros that take no room
  EXPECT_THAT(std::string(ReadFile(folder / "file", 1 << 20).status().message()),
              AllOf(HasSubstr("has 1.00 TiB"), HasSubstr("more than the 1.00 MiB")));
}

}  // namespace
}  // namespace roofbench
