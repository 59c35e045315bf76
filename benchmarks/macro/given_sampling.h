// SPDX-License-Identifier: Apache-2.0
// How the cases of sampling:given choose tokens.
#pragma once

#include "lib/models/sampling/sampling.h"

namespace roofbench {

// By the flags, which have been checked.
models::SamplingOptions GivenSampling();

}  // namespace roofbench
