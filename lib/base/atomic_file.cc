// SPDX-License-Identifier: Apache-2.0
#include "lib/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "lib/base/file_beside.h"

namespace roofbench {

absl::Status WriteFile(const std::string& path, std::string_view text) {
  AtomicFile file;
  if (absl::Status status = file.Open(path); !status.ok()) return status;
  file.stream() << text;
  return file.Finish();
}

bool IsReplaceable(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode);
}

AtomicFile::~AtomicFile() {
  if (in_place_ >= 0) close(in_place_);
}

absl::Status AtomicFile::Open(const std::string& path) {
  struct stat facts {};
  if (path.back() == '/' || (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))) {
    return FileError("write", path, EISDIR);
  }
  path_ = path;
  if (!IsReplaceable(path)) {
    in_place_ = open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return in_place_ < 0 ? FileError("write", path, errno) : absl::OkStatus();
  }
  absl::StatusOr<std::string> real = FollowLinks(path);
  if (!real.ok()) return real.status();
  path_ = *std::move(real);
  // Tried now, while nothing is lost yet, and made again at the end: no end of the process leaves it behind.
  const absl::StatusOr<NewFile> tried = CreateBeside(path_);
  if (!tried.ok()) return tried.status();
  close(tried->file);
  unlink(tried->path.c_str());
  return absl::OkStatus();
}

absl::Status AtomicFile::Finish() {
  const std::string text = std::move(text_).str();
  if (in_place_ >= 0) return WriteAll(in_place_, text) ? absl::OkStatus() : FileError("write", path_, errno);
  const absl::StatusOr<NewFile> made = CreateBeside(path_);
  if (!made.ok()) return made.status();
  // A name that is on the disk before its contents would be an empty file after a power cut.
  const bool kept =
      WriteAll(made->file, text) && fsync(made->file) == 0 && std::rename(made->path.c_str(), path_.c_str()) == 0;
  absl::Status status = kept ? absl::OkStatus() : FileError("write", path_, errno);
  close(made->file);
  if (!kept) unlink(made->path.c_str());
  return status;
}

}  // namespace roofbench
