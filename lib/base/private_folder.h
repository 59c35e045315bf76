// SPDX-License-Identifier: Apache-2.0
// Folders for what the program will run: no other user may put anything there.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace roofbench {

// Makes <base>/<name> with permissions for this user alone, whatever the umask, and `base` likewise if it is not there.
// PermissionDenied with the path, the reason and the way out where another user owns one of the two or could replace
// what is in it; Unavailable where they cannot be made.
absl::Status MakePrivateFolder(const std::string& base, const std::string& name);

// Makes the private folder <cache>/roofbench/<name>, <cache> being XDG_CACHE_HOME or ~/.cache, and returns its path.
// Errors as above; Unavailable where neither variable names a place.
absl::StatusOr<std::string> PrivateCacheFolder(const std::string& name);

// Whether the file or folder is this user's, no link, and nobody else can write to it. PermissionDenied says why not;
// NotFound: there is none.
absl::Status CheckPrivate(const std::string& path);

}  // namespace roofbench
