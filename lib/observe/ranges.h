// SPDX-License-Identifier: Apache-2.0
// Named ranges on the time line of a profiler that reads NVTX (Nsight Systems and others), on any device.
//
//   warm-up, measure: the two parts of a case's sampling      step: one call of the case's step
//   forward, backward, optimizer: of a training step          scores, softmax, weighted sum: of an attention
#pragma once

namespace roofbench::observe {

// Turns ranges on for the whole process. False where this build has no NVTX headers.
bool EnableRanges();

namespace internal {
inline bool g_ranges_enabled = false;
void Push(const char* name);
void Pop();
}  // namespace internal

// One range, from its construction to its end; ranges nest. One comparison where they are off.
class Range {
 public:
  explicit Range(const char* name) : open_(internal::g_ranges_enabled) {
    if (open_) internal::Push(name);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() {
    if (open_) internal::Pop();
  }

  // Ends it and begins the next one.
  void Next(const char* name) {
    if (!open_) return;
    internal::Pop();
    internal::Push(name);
  }

 private:
  const bool open_;
};

}  // namespace roofbench::observe
