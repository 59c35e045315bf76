// SPDX-License-Identifier: Apache-2.0
// Identifies the processes of one run: the same program, device and flags.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/device/device.h"
#include "lib/run/run_options.h"

namespace roofbench {

// Name and value of each part: "program" (a hash of its file), "device", "flags" (those that affect what is measured
// and how, but not where the results are written).
using RunIdentity = std::vector<std::pair<std::string, std::string>>;

absl::StatusOr<RunIdentity> IdentityOf(const RunOptions& options, const Device& device);

// Returns FailedPrecondition naming the first part that differs, with both values.
absl::Status SameRun(const RunIdentity& recorded, const RunIdentity& now);

// A hash that depends on every byte of a file; NotFound if it cannot be read.
absl::StatusOr<std::string> HashOfFile(const std::string& path);

}  // namespace roofbench
