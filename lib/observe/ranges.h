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

// The range around one step.
inline constexpr char kStepRange[] = "step";

// What the name of a range around a kernel of ours begins with.
inline constexpr char kKernelPrefix[] = "roofbench::";

// Ranges that tell what memory is for (lib/observe/memory): around what makes a model's parameters, an optimizer or its
// step, and a cache of keys and values; and around what lets gradients go.
inline constexpr char kParametersRange[] = "parameters";
inline constexpr char kOptimizerRange[] = "optimizer";
inline constexpr char kKvCacheRange[] = "kv cache";
inline constexpr char kZeroGradRange[] = "zero_grad";

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

// While it lives, OpenRanges knows the ranges of every thread. It begins and ends outside of any range.
class FollowedRanges {
 public:
  FollowedRanges();
  FollowedRanges(const FollowedRanges&) = delete;
  FollowedRanges& operator=(const FollowedRanges&) = delete;
  ~FollowedRanges();

 private:
  const bool before_;
};

// The ranges that are open on this thread, from the outermost one, without that of the step: "forward/block 3".
std::string OpenRanges();

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
