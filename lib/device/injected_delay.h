// SPDX-License-Identifier: Apache-2.0
// Real extra work of a chosen length, to slow a step down on purpose.
#pragma once

#include <cstdint>

namespace roofbench {

// Arithmetic on one thread that takes about `seconds` per run. Timing the loop once sets the length, so that the amount
// of work and not a clock decides when it ends.
class InjectedDelay {
 public:
  explicit InjectedDelay(double seconds);
  void Run() const;

 private:
  int64_t iterations_;
};

}  // namespace roofbench
