// SPDX-License-Identifier: Apache-2.0
// What was thrown, as a status.
#pragma once

#include <exception>

#include "absl/status/status.h"

namespace roofbench {

// ResourceExhausted where an allocator had no memory, LibTorch's and oneDNN's among them; else Internal. The message is
// a line.
absl::Status StatusOfThrown(const std::exception& error);

// The same of the exception that is being handled, whatever its type.
absl::Status StatusOfThrown();

}  // namespace roofbench
