// SPDX-License-Identifier: Apache-2.0
#include "lib/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace roofbench {
namespace {

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
    default:
      return "";
  }
}

}  // namespace

absl::Status FileError(const char* what, const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(error), WayOut(error)));
}

bool IsReplaceable(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) != 0 || S_ISREG(facts.st_mode);
}

AtomicFile::~AtomicFile() {
  if (!partial_path_.empty()) std::remove(partial_path_.c_str());
}

absl::Status AtomicFile::Open(const std::string& path) {
  struct stat facts {};
  if (path.back() == '/' || (stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode))) {
    return FileError("write", path, EISDIR);
  }
  path_ = path;
  const bool replaceable = IsReplaceable(path);
  const std::string target = replaceable ? path + ".part" : path;
  errno = 0;
  file_.open(target);
  if (!file_) return FileError("write", target, errno);
  if (replaceable) partial_path_ = target;
  return absl::OkStatus();
}

void AtomicFile::Remember(const char* what) {
  if (status_.ok()) status_ = FileError(what, path_, errno != 0 ? errno : EIO);
}

void AtomicFile::Flush() {
  if (!file_.flush()) Remember("write");
}

absl::Status AtomicFile::Finish() {
  Flush();
  file_.close();
  if (file_.fail()) Remember("finish");
  if (!status_.ok() || partial_path_.empty()) return status_;
  // A name that is on the disk before its contents would be an empty file after a power cut.
  const int file = open(partial_path_.c_str(), O_RDONLY | O_CLOEXEC);
  const bool kept = file >= 0 && fsync(file) == 0;
  if (!kept) Remember("finish");
  if (file >= 0) close(file);
  if (kept && std::rename(partial_path_.c_str(), path_.c_str()) != 0) Remember("write");
  if (status_.ok()) partial_path_.clear();
  return status_;
}

}  // namespace roofbench
