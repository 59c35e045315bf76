// SPDX-License-Identifier: Apache-2.0
// For steps that nobody times.
#pragma once

#include "lib/timing/sampler.h"

namespace roofbench::timing {

// Where the phases of such a step end is nobody's business.
class IgnoredPhases : public PhaseMarker {
 public:
  void End(int /*phase*/) override {}
};

}  // namespace roofbench::timing
