// SPDX-License-Identifier: Apache-2.0
// Converts exceptions to statuses.
#pragma once

#include <exception>

#include "absl/status/status.h"

namespace roofbench {

// Unavailable if another rank was lost; ResourceExhausted if an allocator ran out of memory, including those of
// LibTorch and oneDNN; otherwise Internal. The message is a single line.
absl::Status StatusOfThrown(const std::exception& error);

// The same for the exception that is being handled, of any type.
absl::Status StatusOfThrown();

}  // namespace roofbench
