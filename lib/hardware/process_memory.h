// SPDX-License-Identifier: Apache-2.0
// Memory of this process that lies in RAM: what the system counts against it, tensors or not.
#pragma once

#include <optional>

namespace roofbench::hardware {

// The largest resident set while it lives. One at a time: the system keeps one high-water mark a process, which the
// constructor lowers to what is resident now.
class ProcessMemory {
 public:
  ProcessMemory();

  // Bytes that were resident when it was made.
  double bytes_before() const { return before_; }
  // The most since then; nullopt where the system does not tell, or does not let the mark be lowered.
  std::optional<double> PeakBytes() const;

 private:
  double before_ = 0;
  bool lowered_ = false;
};

}  // namespace roofbench::hardware
