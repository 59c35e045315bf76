// SPDX-License-Identifier: Apache-2.0
// How the cases of sampling:given choose tokens.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "lib/models/sampling/sampling.h"

namespace roofbench {

// By the flags, which have been checked, where the axis `sampling` has the value `given`, and none elsewhere.
// InvalidArgument where a flag says what another value would ignore.
absl::StatusOr<std::optional<models::SamplingOptions>> SamplingOf(std::string_view sampling);

}  // namespace roofbench
