// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/clock.h"

#include <ctime>
#include <stdexcept>

namespace roofbench::timing {

namespace {

// The CPU does not have a launch queue; this bounds the memory of a chunk (128 KiB, well inside a second-level cache).
constexpr std::size_t kMaxMarks = 8192;

double Seconds(std::chrono::steady_clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void CpuClock::BeginChunk(std::size_t marks) {
  marks_.resize(marks);
  seconds_.resize(marks);
  marked_ = 0;
}

void CpuClock::Mark() {
  if (marked_ == marks_.size()) throw std::logic_error("more marks than the chunk has room for");
  marks_[marked_++] = std::chrono::steady_clock::now();
}

std::span<const double> CpuClock::EndChunk() {
  for (std::size_t i = 0; i < marked_; ++i) seconds_[i] = Seconds(marks_[i] - marks_[0]);
  return std::span(seconds_).first(marked_);
}

double CpuClock::HostSeconds() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()); }

double CpuClock::ProcessCpuSeconds() {
  timespec used{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double CpuClock::FloorSeconds() {
  if (!floor_) floor_ = MedianGap(*this, kMaxMarks);
  return *floor_;
}

std::size_t CpuClock::MaxMarks() const { return kMaxMarks; }

}  // namespace roofbench::timing
