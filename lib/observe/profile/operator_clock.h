// SPDX-License-Identifier: Apache-2.0
// How long operators take without a profiler that keeps anything of them.
#pragma once

#include <cstdint>

#include "lib/observe/ranges.h"

namespace roofbench::observe {

// Counts the time that this thread is in operators and kernels of ours, from its construction to its end. It reads the
// clock twice for one that is inside no other, and keeps nothing, arguments least of all: beside a Recorder of the same
// step it tells what lies between operators anyway, and what only because they are recorded. One at a time on a thread;
// it begins and ends outside of any operator.
class OperatorClock {
 public:
  OperatorClock();
  OperatorClock(const OperatorClock&) = delete;
  OperatorClock& operator=(const OperatorClock&) = delete;
  ~OperatorClock();

  double seconds() const;

 private:
  const RecordedRanges ranges_;
  uint64_t handle_;
};

}  // namespace roofbench::observe
