// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/rename.h"

namespace roofbench {

const std::string& Rename::Today(const std::string& value) const {
  for (const auto& [before, today] : values) {
    if (before == value) return today;
  }
  return value;
}

const std::string& Rename::Before(const std::string& value) const {
  for (const auto& [before, today] : values) {
    if (today == value) return before;
  }
  return value;
}

}  // namespace roofbench
