// SPDX-License-Identifier: Apache-2.0
// A file that somebody else wrote, and may be writing still.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

// It is read and not mapped: a mapped file that becomes shorter ends the process that looks at it.
class RegularFile {
 public:
  // Never waits: a pipe without a writer, a device or a folder is InvalidArgument. NotFound, or what else the system
  // says, with the path.
  static absl::StatusOr<RegularFile> Open(const std::string& path);

  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  ~RegularFile();

  const std::string& path() const { return path_; }
  // Bytes that it had when it was opened.
  uint64_t size() const { return size_; }

  // Fills `to` with the bytes from `offset` on. DataLoss where the file has become shorter, and what else the system
  // says, with the path. Several threads may read at once.
  absl::Status Read(uint64_t offset, std::span<std::byte> to) const;

 private:
  RegularFile(std::string path, int file, uint64_t size) : path_(std::move(path)), file_(file), size_(size) {}

  std::string path_;
  int file_;
  uint64_t size_;
};

// The whole of a regular file of at most `most` bytes; a larger one is InvalidArgument. Else as RegularFile.
absl::StatusOr<std::string> ReadFile(const std::string& path, uint64_t most);

}  // namespace roofbench
