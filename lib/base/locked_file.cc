// SPDX-License-Identifier: Apache-2.0
#include "lib/base/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lib/base/file_beside.h"

namespace roofbench {
bool IsNameless(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 0;
}

bool LockedFile::Lock(int file) const {
  constexpr std::chrono::milliseconds kPause(20);
  for (std::chrono::milliseconds waited(0);; waited += kPause) {
    if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    if (waited >= patience_) return false;
    std::this_thread::sleep_for(kPause);
  }
}

bool LockedFile::IsInPlace() const {
  struct stat held {};
  struct stat named {};
  return fstat(file_, &held) == 0 && stat(path_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
         held.st_ino == named.st_ino;
}

absl::Status LockedFile::Open(const std::string& path, bool create) {
  Close();
  path_ = path;
  if (!IsNameless(path)) {
    absl::StatusOr<std::string> real = FollowLinks(path);
    if (!real.ok()) return real.status();
    path_ = *std::move(real);
  }
  for (;;) {
    constexpr int kFlags = O_RDWR | O_APPEND | O_CLOEXEC;
    file_ = open(path_.c_str(), kFlags);
    if (file_ < 0 && errno == ENOENT) {
      if (!create) return absl::NotFoundError(path);
      file_ = open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
      if (file_ < 0 && errno == EEXIST) continue;
      made_ = file_ >= 0;
    }
    if (file_ < 0) return FileError("write", path, errno);
    if (!Lock(file_)) {
      made_ = false;
      Close();
      return absl::AbortedError(path);
    }
    if (IsInPlace()) return absl::OkStatus();
    made_ = false;
    Close();
  }
}

absl::Status LockedFile::OpenInPlace(const std::string& path) {
  Close();
  path_ = path;
  file_ = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  return file_ < 0 ? FileError("write", path, errno) : absl::OkStatus();
}

void LockedFile::Close() {
  if (std::exchange(made_, false) && IsInPlace()) unlink(path_.c_str());
  if (file_ >= 0) close(file_);
  file_ = -1;
}

std::string LockedFile::Read() const {
  std::string text;
  std::array<char, 1 << 16> block{};
  for (off_t at = 0;;) {
    const ssize_t count = pread(file_, block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
    at += count;
  }
}

absl::Status LockedFile::Append(std::string_view text) {
  const off_t before = lseek(file_, 0, SEEK_END);
  if (WriteAll(file_, text)) {
    made_ = false;
    return absl::OkStatus();
  }
  const int error = errno;
  // Half a line would spoil what is appended when there is room again.
  if (before >= 0 && ftruncate(file_, before) != 0 && errno != EINVAL) return FileError("repair", path_, errno);
  return FileError("write", path_, error);
}

absl::Status LockedFile::Truncate(std::size_t size) {
  return ftruncate(file_, static_cast<off_t>(size)) == 0 ? absl::OkStatus() : FileError("repair", path_, errno);
}

absl::Status LockedFile::KeepOld() const {
  for (int number = 1;; ++number) {
    const std::string kept = absl::StrCat(path_, ".previous", number == 1 ? "" : absl::StrCat(".", number));
    // Not renamed: without a file in its place another process would make one there.
    if (link(path_.c_str(), kept.c_str()) == 0) return absl::OkStatus();
    struct stat facts {};
    if (errno == EEXIST || lstat(kept.c_str(), &facts) == 0) continue;
    // A file system without links.
    return std::rename(path_.c_str(), kept.c_str()) == 0 ? absl::OkStatus() : FileError("write", kept, errno);
  }
}

absl::Status LockedFile::Replace(std::string_view text, Old old) {
  if (IsNameless(absl::StrCat("/proc/self/fd/", file_))) {  // nothing can be renamed to it
    if (absl::Status status = Truncate(0); !status.ok()) return status;
    return Append(text);
  }
  const absl::StatusOr<NewFile> made = CreateBeside(path_);
  if (!made.ok()) return made.status();
  absl::Status status;
  if (!Lock(made->file) || !WriteAll(made->file, text) || fsync(made->file) != 0) {
    status = FileError("write", path_, errno);
  }
  if (status.ok() && old == Old::kKeep) status = KeepOld();
  if (status.ok() && std::rename(made->path.c_str(), path_.c_str()) != 0) status = FileError("write", path_, errno);
  if (!status.ok()) {
    close(made->file);
    unlink(made->path.c_str());
    return status;
  }
  made_ = false;
  close(std::exchange(file_, made->file));
  return absl::OkStatus();
}

}  // namespace roofbench
