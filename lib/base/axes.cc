// SPDX-License-Identifier: Apache-2.0
#include "lib/base/axes.h"

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"

namespace roofbench {

nlohmann::ordered_json AxisJson(const std::string& value) {
  int64_t number = 0;
  return absl::SimpleAtoi(value, &number) ? nlohmann::ordered_json(number) : nlohmann::ordered_json(value);
}

}  // namespace roofbench
