// SPDX-License-Identifier: Apache-2.0
// An untimed step.
#pragma once

#include "lib/suite/case.h"
#include "lib/timing/sampler.h"

namespace roofbench {

inline void RunOnce(const Case& built) {
  timing::IgnoredPhases ignored;
  built.step(ignored);
}

}  // namespace roofbench
