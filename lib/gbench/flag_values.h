// SPDX-License-Identifier: Apache-2.0
// What stands behind the = of a flag, checked. Errors name the flag, the value and what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/suite/selection.h"

namespace roofbench {

// "[family.]name=v1,v2,…", the value of --axis.
absl::StatusOr<AxisOverride> ParseAxis(const std::string& text);

// true or false, as Google Benchmark's flags and environment variables spell it.
absl::StatusOr<bool> ParseSwitch(const std::string& flag, const std::string& text);

// Seconds as "1.5" or "1.5s"; from 0 to a day.
absl::StatusOr<double> ParseSeconds(const std::string& flag, const std::string& text);

absl::StatusOr<int64_t> ParseCount(const std::string& flag, const std::string& text, int64_t least, int64_t most);

absl::StatusOr<std::string> OneOf(const std::string& flag, const std::string& text,
                                  const std::vector<std::string>& choices);

}  // namespace roofbench
