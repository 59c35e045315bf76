// SPDX-License-Identifier: Apache-2.0
// One element of a result that is overwritten among the steps of a sample, in so few nanoseconds that a step cannot
// tell it from any other: one that leaves out its work where calls follow each other quickly leaves the element as it
// is.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "lib/suite/case.h"

namespace roofbench {

class OverwrittenElement {
 public:
  // Chooses one of the results of `built`, which outlives it: of those that are in the host's memory.
  OverwrittenElement(const Case& built, std::mt19937_64& random);

  const Case& built() const { return *built_; }
  // Call it right before a step of that case. Does nothing if the memory was given back since.
  void Overwrite();
  // After that step: DataLoss if the element is still as Overwrite left it.
  absl::Status Check() const;

 private:
  static constexpr int64_t kMostBytes = 16;

  const Case* built_;
  std::size_t tensor_ = 0;
  int64_t place_ = 0;  // in bytes from the first element of the tensor
  int64_t bytes_ = 0;
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage_;  // a strong one would change how memory is reused
  std::byte* element_ = nullptr;
  std::array<std::byte, kMostBytes> left_ = {};
  bool is_overwritten_ = false;
};

}  // namespace roofbench
