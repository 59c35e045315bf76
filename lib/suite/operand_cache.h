// SPDX-License-Identifier: Apache-2.0
// Operands shared by the cases of a family, because making them takes seconds and gigabytes: the weights of a model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace roofbench {

// Holds one set of operands between cases, until another set or family replaces it.
class OperandCache {
 public:
  struct Made {
    std::shared_ptr<const void> value;
    double bytes = 0;
    // Set by Get: bytes of these operands that the memory measurement does not see, because they, or operands freed for
    // them, existed when it began.
    double unseen_bytes = 0;
  };

  // Returns the set `key` of the current family. If it is not cached, frees the cached set and makes it.
  static absl::StatusOr<Made> Get(const std::string& key, const std::function<absl::StatusOr<Made>()>& make);
  // Begins a case of `family`: frees the operands of another family.
  static void Enter(const std::string& family);
  // Starts the memory measurement of a case, for example after a pilot run that may have made its operands.
  static void BeginMeasurement();
  // Bytes that are kept; they can be freed for another set.
  static double bytes();
};

}  // namespace roofbench
