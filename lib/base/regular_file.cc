// SPDX-License-Identifier: Apache-2.0
#include "lib/base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "lib/base/text.h"

namespace roofbench {

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for its writer. For a regular file it means nothing.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  struct stat facts = {};
  const int error = fstat(file, &facts) == 0 ? 0 : errno;
  if (error == 0 && S_ISREG(facts.st_mode)) return RegularFile(path, file, static_cast<uint64_t>(facts.st_size));
  close(file);
  if (error != 0) return absl::ErrnoToStatus(error, path);
  const char* const kind = S_ISDIR(facts.st_mode) ? "a folder" : S_ISFIFO(facts.st_mode) ? "a pipe" : "a device";
  return absl::InvalidArgumentError(absl::StrCat(path, ": is ", kind, " and not a regular file"));
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(size_, other.size_);
  return *this;
}

RegularFile::~RegularFile() {
  if (file_ >= 0) close(file_);
}

absl::Status RegularFile::Read(uint64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, path_);
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read: it ends at byte ", offset,
                                              " of the ", size_, " that it had"));
    }
    offset += static_cast<uint64_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most) {
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() > most) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", HumanBytes(static_cast<double>(file->size())),
                                                   ", more than the ", HumanBytes(static_cast<double>(most)),
                                                   " that such a file may have"));
  }
  std::string text(file->size(), '\0');
  if (absl::Status status = file->Read(0, std::as_writable_bytes(std::span(text))); !status.ok()) return status;
  return text;
}

}  // namespace roofbench
