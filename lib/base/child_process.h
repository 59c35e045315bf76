// SPDX-License-Identifier: Apache-2.0
// A program run to its end, and what it said.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace roofbench {

struct ChildResult {
  int exit_code = 0;   // 128 + the signal, if one ended it
  std::string output;  // stdout and stderr
};

// `arguments` starts with the program: a path, or a name that is looked for on the PATH. NotFound: it cannot be run.
absl::StatusOr<ChildResult> RunChild(const std::vector<std::string>& arguments);

}  // namespace roofbench
