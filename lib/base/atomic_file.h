// SPDX-License-Identifier: Apache-2.0
// A file that is whole or not there: kept in memory, written beside its place when it is finished, and renamed.
#pragma once

#include <sstream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace roofbench {

// A reader never finds half a file, a run that fails never costs an old one, and of two runs that write the same file
// the last one wins, whole. What is no plain file (/dev/stdout, a pipe) is written where it is; a symbolic link stays,
// and what it leads to is replaced.
class AtomicFile {
 public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Finds out whether the file can be written. Unavailable with the path, the system's reason and the way out.
  absl::Status Open(const std::string& path);
  std::ostream& stream() { return text_; }
  // On the disk, and in its place.
  absl::Status Finish();

 private:
  std::string path_;  // behind symbolic links
  int in_place_ = -1;
  std::ostringstream text_;
};

// `text` at `path`, by an AtomicFile.
absl::Status WriteFile(const std::string& path, std::string_view text);

// Whether a file at `path` can be written beside its place and renamed: it is a plain file or there is none.
bool IsReplaceable(const std::string& path);

}  // namespace roofbench
