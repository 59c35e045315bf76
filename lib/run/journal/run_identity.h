// SPDX-License-Identifier: Apache-2.0
// What makes two processes parts of one run: the same program, device and flags.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Name and value of each part: "program" (a hash of its file), "device", "flags" (those that decide what is measured
// and how; not where the results go).
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

absl::StatusOr<RunIdentity> IdentityOf(const RunOptions& options, const Device& device);

// FailedPrecondition that names the first part that differs, with both values.
absl::Status SameRun(const RunIdentity& recorded, const RunIdentity& now);

// A number that changes with every byte of a file; NotFound if it cannot be read.
absl::StatusOr<std::string> HashOfFile(const std::string& path);

}  // namespace roofbench
