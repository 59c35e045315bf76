// SPDX-License-Identifier: Apache-2.0
// Real extra work of a chosen length, to make a step slower on purpose.
#pragma once

#include <cstdint>

namespace roofbench {

// Arithmetic on one thread that takes about `seconds` each time it is run. The length is set once, by timing the loop,
// so that the work and not a clock decides when it ends.
class InjectedDelay {
 public:
  explicit InjectedDelay(double seconds);
  void Run() const;

 private:
  int64_t iterations_;
};

}  // namespace roofbench
