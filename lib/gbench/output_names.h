// SPDX-License-Identifier: Apache-2.0
// Checks the names of all files that a run writes.
#pragma once

#include "absl/status/status.h"
#include "lib/gbench/options.h"

namespace roofbench {

// Checks that all outputs are different files, and that none has the name of a file that the run creates alongside
// another output: <out>.comparable.json, <journal>.previous, names ending in .part. InvalidArgument names both files
// and the remedy.
absl::Status CheckOutputNames(const Options& options);

}  // namespace roofbench
