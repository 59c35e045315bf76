// SPDX-License-Identifier: Apache-2.0
#include "lib/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/base/temp_folder.h"

namespace roofbench {
namespace {

using std::chrono::milliseconds;
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

TEST(RegularFile, ShorterFileIsDataLoss) {
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

TEST(RegularFile, RejectsOtherKindsOfFiles) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(Error(folder / "pipe"), (folder / "pipe") + ": is a pipe and not a regular file");
  EXPECT_THAT(Error(folder / ""), HasSubstr(": is a folder and not a regular file"));
  EXPECT_EQ(Error("/dev/zero"), "/dev/zero: is a device and not a regular file");
  EXPECT_EQ(RegularFile::Open(folder / "nothing").status().code(), absl::StatusCode::kNotFound);
}

TEST(RegularFile, DoesNotReadALargeFile) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  std::filesystem::resize_file(folder / "file", uint64_t{1} << 40);  // sparse
  EXPECT_THAT(std::string(ReadFile(folder / "file", 1 << 20).status().message()),
              AllOf(HasSubstr("has 1.00 TiB"), HasSubstr("more than the 1.00 MiB")));
}

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

TEST(AtomicFileTest, LastOfTwoWritersWins) {
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

TEST(SiblingTempFile, IsEachWritersOwn) {
  const TempFolder folder;
  const absl::StatusOr<TempFile> first = CreateSiblingTempFile(folder / "out.json");
  const absl::StatusOr<TempFile> second = CreateSiblingTempFile(folder / "out.json");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path, second->path);
  close(first->file);
  close(second->file);
}

TEST(AtomicFileTest, NobodyCanOccupyItsTemporaryName) {
  const TempFolder folder;
  std::ofstream(folder / "victim") << "precious";
  AtomicFile file;
  ASSERT_TRUE(file.Open(folder / "out.json").ok());
  // Links under names that could be guessed: the former ones.
  std::filesystem::create_symlink("victim", folder / "out.json.part");
  for (int number = 0; number < 1000; ++number) {
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
  ASSERT_TRUE(WriteFile(path, "new").ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), kMine);
}

TEST(AtomicFileTest, WritesThroughALink) {
  const TempFolder folder;
  for (const char* target : {"real.json", "not/there/../../yet.json"}) {
    std::filesystem::remove(folder / "out.json");
    std::filesystem::create_directories(folder / "not/there");
    std::ofstream(folder / "real.json") << "old";
    std::filesystem::create_symlink(target, folder / "out.json");
    ASSERT_TRUE(WriteFile(folder / "out.json", "new").ok());
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "out.json"));
    EXPECT_EQ(ReadText(folder / target), "new");
  }
  std::filesystem::create_symlink("loop", folder / "loop");
  EXPECT_THAT(std::string(WriteFile(folder / "loop", "").message()), HasSubstr("symbolic links"));
}

// Where fs.protected_symlinks is off, the kernel would follow them.
TEST(Links, OfAnotherUserAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "lchown needs root";
  constexpr uid_t kNobody = 65534;
  const TempFolder folder;
  std::filesystem::create_directory(folder / "victims");
  std::ofstream(folder / "victims/file") << "precious";
  std::ofstream(folder / "victims/device");
  const std::pair<std::string, std::string> links[] = {
      {"victims/file", "file"}, {"victims/none", "none"}, {"/dev/null", "device"}, {"victims", "folder"}};
  for (const auto& [target, name] : links) {
    std::filesystem::create_symlink(target, folder / name);
    if (lchown((folder / name).c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no other user exists";
  }
  std::filesystem::create_symlink("file", folder / "ours");  // leads to theirs
  for (const char* path : {"file", "none", "device", "folder/file", "ours"}) {
    AtomicFile atomic;
    LockedFile locked{milliseconds(0)};
    for (const absl::Status& status :
         {atomic.Open(folder / path), locked.Open(folder / path, /*create=*/true), locked.OpenInPlace(folder / path)}) {
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(folder / ""), HasSubstr("is a symbolic link of another user")));
    }
  }
  EXPECT_EQ(ReadText(folder / "victims/file"), "precious");
  EXPECT_FALSE(std::filesystem::exists(folder / "victims/none"));
}

TEST(Pipes, AreWrittenIfTheyHaveAReader) {
  const TempFolder folder;
  const std::string path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  AtomicFile atomic;
  LockedFile locked{milliseconds(0)};
  for (const absl::Status& status : {atomic.Open(path), locked.OpenInPlace(path)}) {
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(path), HasSubstr("start the reader of a pipe first")));
  }
  // More than a pipe holds: a slow reader is waited for.
  const std::string text(1'000'000, 'x');
  const int end = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(locked.OpenInPlace(path).ok());
  std::string read;
  std::thread reader([&] { read = ReadText(path); });
  EXPECT_TRUE(locked.Append(text).ok());
  locked.Close();
  close(end);
  reader.join();
  EXPECT_EQ(read.size(), text.size());
}

TEST(AtomicFileTest, LeavesNoFileWithoutFinish) {
  const TempFolder folder;
  {
    AtomicFile file;
    ASSERT_TRUE(file.Open(folder / "out.json").ok());
    file.stream() << "half";
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFileTest, FullDiskIsReportedWithRemedy) {
  EXPECT_THAT(std::string(WriteFile("/dev/full", "text").message()),
              AllOf(HasSubstr("/dev/full"), HasSubstr("No space left on device"), HasSubstr("make room")));
  EXPECT_FALSE(std::filesystem::exists("/dev/full.part"));
}

TEST(AtomicFileTest, DevicesAreWrittenInPlace) {
  ASSERT_TRUE(WriteFile("/dev/null", "text").ok());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null")) << "a rename would have replaced it";
}

TEST(AtomicFileTest, RejectsPathsThatCannotBeWritten) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  AtomicFile file;
  EXPECT_THAT(std::string(file.Open(folder / "no/out.json").message()), HasSubstr("make its folder first"));
  EXPECT_THAT(std::string(file.Open(folder / "").message()), HasSubstr("name a file in it"));
  EXPECT_THAT(std::string(file.Open(folder / "file/out.json").message()), HasSubstr("a part of the path is a file"));
}

// The number of descriptors of this process whose path is, or was, `path`.
int DescriptorsOf(const std::string& path) {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    found += std::filesystem::read_symlink(entry.path(), gone) == path ? 1 : 0;
  }
  return found;
}

TEST(LockedFileTest, OneProcessAtATimeEvenAfterReplace) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  LockedFile first{milliseconds(0)};
  ASSERT_TRUE(first.Open(path, /*create=*/true).ok());
  // It waits for the lock of the current file, which is then replaced.
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

TEST(LockedFileTest, RemovesItsOwnEmptyFile) {
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
  EXPECT_TRUE(std::filesystem::exists(path)) << "another process made it";
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

mode_t ModeOf(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777;
}

TEST(AtomicFileTest, TakesNoMoreOverFromTheOldFileThanANewOneWouldHave) {
  const TempFolder folder;
  const std::string path = folder / "result.json";
  const auto written = [&](mode_t mode, uid_t owner) {
    EXPECT_TRUE(WriteFile(path, "old").ok());
    EXPECT_EQ(chown(path.c_str(), owner, static_cast<gid_t>(-1)), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(WriteFile(path, "new").ok());
    return ModeOf(path);
  };
  const mode_t before = umask(0022);
  EXPECT_EQ(written(0600, geteuid()), 0600);
  EXPECT_EQ(written(04777, geteuid()), 0644);
  if (geteuid() == 0) {
    EXPECT_EQ(written(04600, 65534), 0644) << "of another user";
  }
  umask(before);
}

TEST(LockedFileTest, AForkedProcessDoesNotHoldTheLock) {
  const TempFolder folder;
  const std::string path = folder / "run.jsonl";
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  auto first = std::make_unique<LockedFile>(milliseconds(0));
  ASSERT_TRUE(first->Open(path, /*create=*/true).ok());
  ASSERT_TRUE(first->Replace("one", LockedFile::Old::kDrop).ok());
  const pid_t left = fork();
  if (left == 0) {
    _exit(write(ends[1], "x", 1) == 1 ? pause() : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1) << "it runs";
  first.reset();
  LockedFile second{milliseconds(0)};
  EXPECT_TRUE(second.Open(path, /*create=*/false).ok()) << "a process that a case left behind keeps the journal";
  EXPECT_EQ(second.Read(), "one");
  close(ends[0]);
  close(ends[1]);
  kill(left, SIGKILL);
  EXPECT_EQ(waitpid(left, nullptr, 0), left);
}

TEST(PrivateFolder, IsPrivateWhateverTheUmask) {
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

TEST(PrivateFolder, RejectsFoldersThatOthersCanWrite) {
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  const std::string ours = folder / "base/ours";
  chmod(ours.c_str(), 0770);
  const absl::Status open = MakePrivateFolder(folder / "base", "ours");
  EXPECT_TRUE(absl::IsPermissionDenied(open));
  EXPECT_THAT(std::string(open.message()), HasSubstr(ours + " can be written by other users"));
  chmod(ours.c_str(), 0700);
  chmod((folder / "base").c_str(), 0777);
  EXPECT_TRUE(absl::IsPermissionDenied(MakePrivateFolder(folder / "base", "ours"))) << "another user could replace it";
  chmod((folder / "base").c_str(), 01777);
  EXPECT_TRUE(MakePrivateFolder(folder / "base", "ours").ok()) << "sticky, as /tmp";
}

TEST(PrivateFolder, RejectsLinks) {
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  std::filesystem::create_symlink("ours", folder / "base/link");
  EXPECT_THAT(std::string(MakePrivateFolder(folder / "base", "link").message()), HasSubstr("is a symbolic link"));
  EXPECT_TRUE(absl::IsNotFound(CheckPrivate(folder / "base/none")));
}

TEST(PrivateFolder, RejectsFoldersOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "chown needs root";
  const TempFolder folder;
  ASSERT_TRUE(MakePrivateFolder(folder / "base", "ours").ok());
  constexpr uid_t kNobody = 65534;
  const std::string ours = folder / "base/ours";
  std::ofstream(ours + "/package") << "contents";
  ASSERT_TRUE(CheckPrivate(ours + "/package").ok());
  if (chown((ours + "/package").c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "no other user exists";
  EXPECT_THAT(std::string(CheckPrivate(ours + "/package").message()), HasSubstr("belongs to another user"));
  ASSERT_EQ(chown(ours.c_str(), kNobody, kNobody), 0);
  EXPECT_THAT(std::string(MakePrivateFolder(folder / "base", "ours").message()), HasSubstr("belongs to another user"));
}

}  // namespace
}  // namespace roofbench
