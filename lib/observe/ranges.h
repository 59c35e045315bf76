// SPDX-License-Identifier: Apache-2.0
// Named ranges on a profiler's timeline: for NVTX readers (Nsight Systems and others) on any device, and for our own
// profiler (lib/observe/profile).
//
//   warm-up, measure: the two parts of sampling a case        step: one call of the case's step
//   forward, backward, optimizer: of a training step          scores, softmax, weighted sum: of an attention
//   roofbench::<kernel>: one of our kernels
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace roofbench::observe {

inline constexpr char kStepRange[] = "step";
// Prefix of the ranges around our kernels.
inline constexpr char kKernelPrefix[] = "roofbench::";

// Ranges that name the purpose of memory (memory_history.h): creation of a model's parameters, an optimizer and its
// step, a key/value cache, and the release of gradients.
inline constexpr char kParametersRange[] = "parameters";
inline constexpr char kOptimizerRange[] = "optimizer";
inline constexpr char kKvCacheRange[] = "kv cache";
inline constexpr char kZeroGradRange[] = "zero_grad";

// Turns on NVTX ranges for the whole process. Returns false if this build has no NVTX headers.
bool EnableRanges();

namespace internal {
inline bool g_ranges_enabled = false;
void Push(const char* name, std::optional<int64_t> number = std::nullopt);
void Pop();
}  // namespace internal

// While it lives, ranges are also LibTorch user scopes, which its profiler records. Construct and destroy it outside
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

// While it lives, OpenRanges reports the ranges of each thread. Construct and destroy it outside any range.
class FollowedRanges {
 public:
  FollowedRanges();
  FollowedRanges(const FollowedRanges&) = delete;
  FollowedRanges& operator=(const FollowedRanges&) = delete;
  ~FollowedRanges();

 private:
  const bool before_;
};

// The ranges open on this thread, outermost first, without the step's: "forward/block 3".
std::string OpenRanges();

// A range from construction to destruction; ranges nest. Costs one comparison while ranges are off.
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

  // Ends this range and begins the next one.
  void Next(const char* name) {
    if (!open_) return;
    internal::Pop();
    internal::Push(name);
  }

 private:
  const bool open_;
};

}  // namespace roofbench::observe
