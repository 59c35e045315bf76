// SPDX-License-Identifier: Apache-2.0
// Flags that families bring with them, looked at before anything is measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/suite/plan.h"

namespace roofbench {

// At namespace scope, beside the flag. `check` says what is wrong with its value, and OK where it was not given. It is
// asked once, in the process that was started, before there is another.
class FlagCheck {
 public:
  explicit FlagCheck(std::function<absl::Status()> check);
};

// Likewise, of flags that say something to cases at points with `reads` alone: where no such case is selected, a flag
// that was given is refused, and `way_out` says how to select one.
class FlagUse {
 public:
  FlagUse(std::vector<std::string> flags, std::function<bool(const Point&)> reads, std::string way_out);
};

// What the first check that is not content has to say, or the first flag that no case of the plan reads.
absl::Status CheckFlags(const std::vector<PlannedCase>& plan);

}  // namespace roofbench
