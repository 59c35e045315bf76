// SPDX-License-Identifier: Apache-2.0
// Values of axes as users write them: ranges, and --axis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace roofbench {

// "256:4096:x2" or "100:500:+100": the integers from the first to the second, by a factor or an increment; any other
// text without a colon is itself. InvalidArgument for another range, or one of more than a thousand values.
absl::StatusOr<std::vector<std::string>> ValuesOf(const std::string& text);

// One --axis=[family.]name=v1,v2,…
struct AxisOverride {
  std::string family = {};  // empty: every family that has the axis
  std::string axis;
  std::vector<std::string> values;
  std::string flag = "--axis";  // that gives them, for messages
};

// The value of --axis. `listing`: the flag that lists the names, for the message.
absl::StatusOr<AxisOverride> ParseAxisOverride(const std::string& text, std::string_view listing);

}  // namespace roofbench
