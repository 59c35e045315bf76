// SPDX-License-Identifier: Apache-2.0
// The peak of LibTorch's tensor memory while a scope lives, on the CPU and on CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace roofbench::observe {

// Counts bytes that LibTorch's allocators hand out and take back on this thread (and on autograd's, which inherit its
// state). It slows allocation down, so it never surrounds a timed step.
class PeakMemory {
 public:
  PeakMemory();
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
