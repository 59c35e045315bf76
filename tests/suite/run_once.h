// SPDX-License-Identifier: Apache-2.0
// A step that nobody times.
#pragma once

#include "lib/suite/case.h"
#include "lib/timing/sampler.h"

namespace roofbench {

// Runs the step of a case once; where its phases end is nobody's business.
inline void RunOnce(const Case& built) {
  class Ignored : public timing::PhaseMarker {
    void End(int /*phase*/) override {}
  } ignored;
  built.step(ignored);
}

}  // namespace roofbench
