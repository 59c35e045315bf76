// SPDX-License-Identifier: Apache-2.0
// Names of the files that a run writes.
#pragma once

#include "absl/status/status.h"
#include "lib/gbench/suite_options.h"

namespace roofbench {

// Checks that all outputs are different files, and that none has the name of a file that the run creates alongside
// another output: <journal>.previous, names ending in .part. InvalidArgument names both files and the remedy.
absl::Status CheckOutputNames(const SuiteOptions& options);

}  // namespace roofbench
