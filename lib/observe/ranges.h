// SPDX-License-Identifier: Apache-2.0
// Named ranges on the time line of a profiler: of one that reads NVTX (Nsight Systems and others), on any device, and
// of our own (lib/observe/profile).
//
//   warm-up, measure: the two parts of a case's sampling      step: one call of the case's step
//   forward, backward, optimizer: of a training step          scores, softmax, weighted sum: of an attention
//   roofbench::<kernel>: a kernel of ours
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace roofbench::observe {

// What the name of a range around a kernel of ours begins with.
inline constexpr char kKernelPrefix[] = "roofbench::";

// Turns NVTX ranges on for the whole process. False where this build has no NVTX headers.
bool EnableRanges();

namespace internal {
inline bool g_ranges_enabled = false;
void Push(const char* name, std::optional<int64_t> number = std::nullopt);
void Pop();
}  // namespace internal

// While it lives, ranges are user scopes of LibTorch, too, which its profiler records. It begins and ends outside of
// any range.
class RecordedRanges {
 public:
  RecordedRanges();
  RecordedRanges(const RecordedRanges&) = delete;
  RecordedRanges& operator=(const RecordedRanges&) = delete;
  ~RecordedRanges();

 private:
  const bool before_;
};

// One range, from its construction to its end; ranges nest. One comparison where they are off.
class Range {
 public:
  explicit Range(const char* name) : open_(internal::g_ranges_enabled) {
    if (open_) internal::Push(name);
  }
  // "block 3"
  Range(const char* name, int64_t number) : open_(internal::g_ranges_enabled) {
    if (open_) internal::Push(name, number);
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
