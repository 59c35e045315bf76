// SPDX-License-Identifier: Apache-2.0
// A file that is whole or not there: written beside its place, renamed when it is finished.
#pragma once

#include <fstream>
#include <string>

#include "absl/status/status.h"

namespace roofbench {

// A reader never finds half a file, and a run that fails never costs an old one. What is no plain file (/dev/stdout, a
// pipe) is written where it is.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  // Removes what was not finished.
  ~AtomicFile();

  // Unavailable with the path, the system's reason and the way out.
  absl::Status Open(const std::string& path);
  std::ostream& stream() { return file_; }
  // Hands what is buffered to the system. What fails here is told by Finish.
  void Flush();
  // On the disk, and in its place.
  absl::Status Finish();

 private:
  void Remember(const char* what);

  std::string path_;
  std::string partial_path_;  // empty where the file is written in place
  std::ofstream file_;
  absl::Status status_;
};

// "cannot <what> <path>: <reason of errno>", with what to do about it where that is known. Unavailable.
absl::Status FileError(const char* what, const std::string& path, int error);

// Whether a file at `path` can be written beside its place and renamed: it is a plain file or there is none.
bool IsReplaceable(const std::string& path);

}  // namespace roofbench
