// SPDX-License-Identifier: Apache-2.0
// A file that grows by whole pieces, and that one process writes at a time.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace roofbench {

// The lock is held from Open to the end of the object or of its process, whatever becomes of the file's name: what
// Replace puts in its place is locked before it is there. Errors are Unavailable and name the path, the reason and the
// way out, if nothing else is said.
class LockedFile {
 public:
  // Another process may hold the file for so long.
  explicit LockedFile(std::chrono::milliseconds patience) : patience_(patience) {}
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  // Removes an empty file that Open made.
  ~LockedFile() { Close(); }

  // Opens a plain file, behind symbolic links or without a name (memfd), to read and append. NotFound if there is none,
  // unless it shall be made. Aborted if another process keeps it locked.
  absl::Status Open(const std::string& path, bool create);
  // Opens what is no plain file (a device, a pipe), or has no name, to write it where it is, without a lock.
  absl::Status OpenInPlace(const std::string& path);
  void Close();
  bool is_open() const { return file_ >= 0; }

  std::string Read() const;
  // All of it or nothing.
  absl::Status Append(std::string_view text);
  // Cuts it off after so many bytes.
  absl::Status Truncate(std::size_t size);

  enum class Old { kDrop, kKeep };
  // Whole, or the old file stays. kKeep: that one gets the first free name of <path>.previous, <path>.previous.2, …
  absl::Status Replace(std::string_view text, Old old);

 private:
  bool Lock(int file) const;
  // Whether `file_` is what stands at the path: another process may have replaced it while this one waited.
  bool IsInPlace() const;
  absl::Status KeepOld() const;

  std::chrono::milliseconds patience_;
  std::string path_;  // behind symbolic links
  int file_ = -1;
  bool made_ = false;  // and still empty
};

// Whether there is a plain file that has no name any more, or never had one.
bool IsNameless(const std::string& path);

}  // namespace roofbench
