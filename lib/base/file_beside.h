// SPDX-License-Identifier: Apache-2.0
// New files beside a place, to be renamed to it: safe where strangers can write to the folder.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

// "cannot <what> <path>: <reason of errno>", with what to do about it where that is known. Unavailable.
absl::Status FileError(const char* what, const std::string& path, int error);

// What the names of unfinished files end in.
inline constexpr std::string_view kUnfinished = ".part";

struct NewFile {
  int file = -1;  // open for reading and appending; the caller closes it
  std::string path;
};

// Makes <path>.<process>-<number>.part, with a name that nothing had, whoever else writes to `path`, and with the
// permissions of the file at `path` where there is one. Unavailable with the path, the reason and the way out.
absl::StatusOr<NewFile> CreateBeside(const std::string& path);

// Where what is written to `path` goes: symbolic links are followed, also the last one where it leads nowhere yet.
// Unavailable for links that lead in a circle, or that the system does not let this user follow.
absl::StatusOr<std::string> FollowLinks(const std::string& path);

// Hands all of the text to the system. False with errno set where it does not take it.
bool WriteAll(int file, std::string_view text);

}  // namespace roofbench
