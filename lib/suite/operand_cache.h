// SPDX-License-Identifier: Apache-2.0
// Operands that cases of a family share, because making them takes seconds and gigabytes: the weights of a model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace roofbench {

// One set of operands at a time, kept between cases until another set, or another family, takes its place.
class OperandCache {
 public:
  struct Made {
    std::shared_ptr<const void> value;
    double bytes = 0;
    // Set by Get: what the measurement of memory misses of these operands. They were there when it began, or the ones
    // that made room for them were.
    double unseen_bytes = 0;
  };

  // The set called `key` of the family that was entered, made at the first question, after what is there has been let
  // go.
  static absl::StatusOr<Made> Get(const std::string& key, const std::function<absl::StatusOr<Made>()>& make);
  // A case of `family` begins: lets go of what belongs to another one.
  static void Enter(const std::string& family);
  // The memory of a case is measured from now on: after a pilot run, say, which may have made what it needs.
  static void BeginMeasurement();
  // Bytes that are kept: another set may have them.
  static double bytes();
};

}  // namespace roofbench
