// SPDX-License-Identifier: Apache-2.0
// Checks the names of all files that a run writes.
#pragma once

#include "absl/status/status.h"
#include "lib/gbench/options.h"

namespace roofbench {

// Whether no two outputs are one file, and none has a name that the run gives to files of its own beside another:
// <out>.comparable.json, <journal>.previous, what ends in .part. InvalidArgument names both and the way out.
absl::Status CheckOutputNames(const Options& options);

}  // namespace roofbench
