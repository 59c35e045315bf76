// SPDX-License-Identifier: Apache-2.0
// Resident memory of this process: all pages that the system counts for it, tensors or not.
#pragma once

#include <optional>

namespace roofbench::hardware {

// The largest resident set during its lifetime. One at a time: the system keeps one high-water mark per process, which
// the constructor lowers to the current resident size.
class ProcessMemory {
 public:
  ProcessMemory();

  // Bytes that were resident at construction.
  double bytes_before() const { return before_; }
  // The maximum since then; nullopt where the system does not report it, or does not allow lowering the mark.
  std::optional<double> PeakBytes() const;

 private:
  double before_ = 0;
  bool lowered_ = false;
};

}  // namespace roofbench::hardware
