// SPDX-License-Identifier: Apache-2.0
// How the cases of sampling:given choose tokens.
#pragma once

#include <optional>
#include <string_view>

#include "lib/models/sampling/sampling.h"

namespace roofbench {

// By the flags, which have been checked, where the axis `sampling` has the value `given`, and none elsewhere.
std::optional<models::SamplingOptions> SamplingOf(std::string_view sampling);

}  // namespace roofbench
