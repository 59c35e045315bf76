// SPDX-License-Identifier: Apache-2.0
// The peak of LibTorch's tensor memory while a scope lives, on the CPU and on CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace roofbench::observe {

// Counts bytes that LibTorch's allocators hand out and take back on this thread (and on autograd's, which inherit its
// state). It slows allocation down, so it never surrounds a timed step.
class PeakMemory {
 public:
  // Told of each allocation, and with negative bytes of each end of one, in their order.
  using Listener = std::function<void(const void* address, int64_t bytes)>;

  // `listener`, if there is one, hears of the CPU's allocator.
  explicit PeakMemory(Listener listener = nullptr);
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  // Forgets the peak: it starts again at what is allocated now.
  void ResetPeak();
  // The largest number of bytes alive at once, of those allocated since the scope began.
  double PeakBytes() const;

  // Bytes alive now of those allocated since the innermost scope of this thread began; nullopt outside of any.
  static std::optional<double> BytesNow();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace roofbench::observe
