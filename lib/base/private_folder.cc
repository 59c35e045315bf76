// SPDX-License-Identifier: Apache-2.0
#include "lib/base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/file_beside.h"

namespace roofbench {
namespace {

constexpr mode_t kMine = S_IRWXU;
constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;

absl::Status Refusal(const std::string& path, const char* reason, const char* way_out) {
  return absl::PermissionDeniedError(absl::StrCat(path, " ", reason, "; ", way_out));
}

absl::Status Make(const std::string& path) {
  if (mkdir(path.c_str(), kMine) != 0) return errno == EEXIST ? absl::OkStatus() : FileError("make", path, errno);
  return chmod(path.c_str(), kMine) == 0 ? absl::OkStatus() : FileError("make", path, errno);  // the umask took some
}

// A folder of this user or the system in which nobody else can put another thing in the place of ours.
absl::Status CheckBase(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return FileError("use", path, errno);
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    return Refusal(path, "belongs to another user", "name a folder of your own by XDG_CACHE_HOME");
  }
  if ((facts.st_mode & kOthersWrite) != 0 && (facts.st_mode & S_ISVTX) == 0) {
    return Refusal(path, "can be written by other users", "take that from them, or name another by XDG_CACHE_HOME");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPrivate(const std::string& path) {
  struct stat facts {};
  if (lstat(path.c_str(), &facts) != 0) {
    return errno == ENOENT ? absl::NotFoundError(path) : FileError("use", path, errno);
  }
  constexpr char kDelete[] = "delete it to have it made again";
  if (S_ISLNK(facts.st_mode)) return Refusal(path, "is a symbolic link", kDelete);
  if (facts.st_uid != geteuid()) return Refusal(path, "belongs to another user", kDelete);
  if ((facts.st_mode & kOthersWrite) != 0) return Refusal(path, "can be written by other users", kDelete);
  return absl::OkStatus();
}

absl::Status MakePrivateFolder(const std::string& base, const std::string& name) {
  std::error_code error;
  if (!std::filesystem::exists(base, error)) {
    std::filesystem::create_directories(std::filesystem::path(base).parent_path(), error);
    if (absl::Status status = Make(base); !status.ok()) return status;
  }
  if (absl::Status status = CheckBase(base); !status.ok()) return status;
  const std::string folder = absl::StrCat(base, "/", name);
  if (absl::Status status = Make(folder); !status.ok()) return status;
  return CheckPrivate(folder);
}

absl::StatusOr<std::string> PrivateCacheFolder(const std::string& name) {
  const auto variable = [](const char* key) {
    const char* const value = std::getenv(key);
    return std::string(value == nullptr ? "" : value);
  };
  std::string base = variable("XDG_CACHE_HOME");
  if (base.empty() && !variable("HOME").empty()) base = absl::StrCat(variable("HOME"), "/.cache");
  if (base.empty()) return absl::UnavailableError("neither XDG_CACHE_HOME nor HOME names a place for a cache");
  const std::string ours = absl::StrCat(base, "/roofbench");
  for (const auto& [parent, folder] : {std::pair<std::string, std::string>{base, "roofbench"}, {ours, name}}) {
    if (absl::Status status = MakePrivateFolder(parent, folder); !status.ok()) return status;
  }
  return absl::StrCat(ours, "/", name);
}

}  // namespace roofbench
