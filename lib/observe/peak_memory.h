// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace roofbench::observe {

// Counts the bytes that LibTorch's CPU and CUDA allocators hand out and take back on this thread (and on autograd's
// threads, which inherit its state). It slows down allocation, so never use it around a timed step.
class PeakMemory {
 public:
  // Receives each allocation, and each release with negative bytes, in order.
  using Listener = std::function<void(const void* address, int64_t bytes)>;

  // `listener`, if set, receives the events of the CPU allocator.
  explicit PeakMemory(Listener listener = nullptr);
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  // Restarts the peak at the bytes allocated now.
  void ResetPeak();
  // The largest number of bytes alive at once, of those allocated since construction.
  double PeakBytes() const;

  // Bytes alive now of those allocated since the innermost PeakMemory of this thread was constructed; nullopt without
  // one.
  static std::optional<double> BytesNow();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace roofbench::observe
