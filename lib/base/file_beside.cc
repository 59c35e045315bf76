// SPDX-License-Identifier: Apache-2.0
#include "lib/base/file_beside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux has it
constexpr mode_t kPermissions = 07777;

const char* WayOut(int error) {
  switch (error) {
    case ENOENT:
      return " (make its folder first)";
    case EISDIR:
      return " (name a file in it)";
    case ENOTDIR:
      return " (a part of the path is a file)";
    case EACCES:
    case EPERM:
    case EROFS:
      return " (choose a place that you may write to)";
    case ENOSPC:
    case EDQUOT:
      return " (make room, or choose another disk)";
    case EFBIG:
      return " (raise the limit on the size of files: ulimit -f)";
    default:
      return "";
  }
}

}  // namespace

absl::Status FileError(const char* what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error), WayOut(error)));
}

absl::StatusOr<NewFile> CreateBeside(const std::string& path) {
  constexpr int kMostNames = 1000;
  NewFile made;
  for (int number = 0; number < kMostNames; ++number) {
    made.path = absl::StrCat(path, ".", getpid(), "-", number, View(kUnfinished));
    // O_EXCL: what a stranger or another run has laid there is neither followed nor written to.
    made.file = open(made.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0666);
    if (made.file >= 0 || errno != EEXIST) break;
  }
  if (made.file < 0) return FileError("write", path, errno);
  struct stat old {};
  struct stat facts {};
  // Compared first: some file systems have no permissions to change.
  if (stat(path.c_str(), &old) == 0 && fstat(made.file, &facts) == 0 && old.st_mode != facts.st_mode &&
      fchmod(made.file, old.st_mode & kPermissions) != 0) {
    const absl::Status status = FileError("write", path, errno);
    close(made.file);
    unlink(made.path.c_str());
    return status;
  }
  return made;
}

absl::StatusOr<std::string> FollowLinks(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0 || !S_ISLNK(facts.st_mode)) return path;
  // Opening asks the system, which follows no stranger's link out of a shared folder (fs.protected_symlinks).
  const int file = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (file >= 0) close(file);
  if (file < 0 && errno != ENOENT && errno != ENXIO) return FileError("write", path, errno);
  fs::path target = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const fs::path next = fs::read_symlink(target, error);
    if (error) return target.string();
    target = target.parent_path() / next;
  }
  return FileError("write", path, ELOOP);
}

bool WriteAll(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace roofbench
