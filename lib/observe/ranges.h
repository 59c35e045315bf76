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
#include <utility>

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
inline bool g_enabled = false;
inline bool g_recorded = false;
inline bool g_followed = false;
void Push(const char* name, std::optional<int64_t> number);
void Pop();

// While it lives, ranges are enabled, and `kUse` is set. Construct and destroy it outside any range.
template <bool& kUse>
class ScopedRanges {
 public:
  ScopedRanges() : before_(std::exchange(g_enabled, true)) { kUse = true; }
  ScopedRanges(const ScopedRanges&) = delete;
  ScopedRanges& operator=(const ScopedRanges&) = delete;
  ~ScopedRanges() {
    g_enabled = before_;
    kUse = false;
  }

 private:
  const bool before_;
};
}  // namespace internal

// While it lives, ranges are also LibTorch user scopes, which its profiler records.
using RecordedRanges = internal::ScopedRanges<internal::g_recorded>;
// While it lives, OpenRanges reports the ranges of each thread.
using FollowedRanges = internal::ScopedRanges<internal::g_followed>;

// The ranges open on this thread, outermost first, without the step's: "forward/block 3".
std::string OpenRanges();

// A range from construction to destruction; ranges nest. Costs one comparison while ranges are off.
class Range {
 public:
  // With a number: "block 3".
  explicit Range(const char* name, std::optional<int64_t> number = std::nullopt) : open_(internal::g_enabled) {
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
    internal::Push(name, std::nullopt);
  }

 private:
  const bool open_;
};

}  // namespace roofbench::observe
