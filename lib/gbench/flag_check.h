// SPDX-License-Identifier: Apache-2.0
// Flags that families bring with them, looked at before anything is measured.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace roofbench {

// At namespace scope, beside the flag. `check` says what is wrong with its value, and OK where it was not given. It is
// asked once, in the process that was started, before there is another.
class FlagCheck {
 public:
  explicit FlagCheck(std::function<absl::Status()> check);
};

// What the first check that is not content has to say.
absl::Status CheckFlags();

}  // namespace roofbench
