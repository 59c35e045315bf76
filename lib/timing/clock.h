// SPDX-License-Identifier: Apache-2.0
// Timing of a chunk of steps, on a device that may lag the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench::timing {

// A clock that marks points in a device's stream of work.
//
// A chunk is: BeginChunk(n), then Mark(0), Mark(1), … between pieces of work in any number up to n, then EndChunk,
// which alone may wait for the device. On a GPU, BeginChunk places a short bounded sleep on the stream so that launches
// queue up ahead of the device, Mark records an event, and EndChunk reads them; on a CPU a mark is a read of the steady
// clock.
//
// No function has a default: a clock that wraps another must forward every call, as ForwardingClock does.
class Clock {
 public:
  virtual ~Clock() = default;

  // Reserves `marks` marks. Never called between a BeginChunk and its EndChunk.
  virtual void BeginChunk(std::size_t marks) = 0;

  // Records "now" in the stream as the next mark. Must not block, allocate or synchronize.
  virtual void Mark() = 0;

  // Waits until the device has passed the last mark and returns the marks in seconds since the first.
  // The span is valid until the next BeginChunk.
  virtual std::span<const double> EndChunk() = 0;

  // Wall seconds of the host, for budgets. Never compared with marks.
  virtual double HostSeconds() = 0;

  // CPU seconds that this process has used, all threads together.
  virtual double ProcessCpuSeconds() = 0;

  // The difference between two adjacent marks without work between them: the median of many, measured once.
  virtual double FloorSeconds() = 0;

  // Most marks that may wait in one chunk (a GPU's launch queue is about 1,000 deep).
  virtual std::size_t MaxMarks() const = 0;

  // Most marks of a chunk of a single step, which may make more marks than planned.
  virtual std::size_t MaxStepMarks() const = 0;

  // Sets `look`, which is called from time to time while the device works and the host would wait for it: it observes
  // states that exist under load alone. nullptr: no calls.
  virtual void WhileBusy(const std::function<void()>& look) = 0;

  // Calls `step` and returns the host seconds that it waited for the device in its own operations, or returns 0 without
  // calling it where the clock cannot measure waits.
  virtual double SecondsWaitedIn(const std::function<void()>& step) = 0;

  // Has the device wait this long before the first mark of the next chunk, so that the host is far ahead of it; ends
  // without the host. Returns false where the host is the device.
  virtual bool HoldNextChunk(double seconds) = 0;

  // The rate of the device's own clock at the start of the last chunk; 0 where it is not known.
  virtual double DeviceHertz() const = 0;

  // The part of `host_seconds`, the host time between the last BeginChunk and its EndChunk, that enqueueing took: less
  // than all of it where the host waited for room in a full launch queue.
  virtual double EnqueueSeconds(double host_seconds) const = 0;
};

// Wraps a clock, which must outlive it. A subclass overrides what it adds.
class ForwardingClock : public Clock {
 public:
  explicit ForwardingClock(Clock& wrapped) : wrapped_(wrapped) {}

  void BeginChunk(std::size_t marks) override { wrapped_.BeginChunk(marks); }
  void Mark() override { wrapped_.Mark(); }
  std::span<const double> EndChunk() override { return wrapped_.EndChunk(); }
  double HostSeconds() override { return wrapped_.HostSeconds(); }
  double ProcessCpuSeconds() override { return wrapped_.ProcessCpuSeconds(); }
  double FloorSeconds() override { return wrapped_.FloorSeconds(); }
  std::size_t MaxMarks() const override { return wrapped_.MaxMarks(); }
  std::size_t MaxStepMarks() const override { return wrapped_.MaxStepMarks(); }
  void WhileBusy(const std::function<void()>& look) override { wrapped_.WhileBusy(look); }
  double SecondsWaitedIn(const std::function<void()>& step) override { return wrapped_.SecondsWaitedIn(step); }
  bool HoldNextChunk(double seconds) override { return wrapped_.HoldNextChunk(seconds); }
  double DeviceHertz() const override { return wrapped_.DeviceHertz(); }
  double EnqueueSeconds(double host_seconds) const override { return wrapped_.EnqueueSeconds(host_seconds); }

 protected:
  Clock& Wrapped() { return wrapped_; }

 private:
  Clock& wrapped_;
};

// The median difference between adjacent marks of a chunk without work.
template <typename SomeClock>
double MedianGap(SomeClock& clock, std::size_t marks) {
  clock.BeginChunk(marks);
  for (std::size_t i = 0; i < marks; ++i) clock.Mark();
  const std::span<const double> seconds = clock.EndChunk();
  std::vector<double> gaps;
  for (std::size_t i = 1; i < seconds.size(); ++i) gaps.push_back(seconds[i] - seconds[i - 1]);
  return Median(gaps);
}

// The clock of work that runs on the calling host: a mark is a read of the steady clock.
class CpuClock final : public Clock {
 public:
  void BeginChunk(std::size_t marks) override;
  void Mark() override;
  std::span<const double> EndChunk() override;
  double HostSeconds() override;
  double ProcessCpuSeconds() override;
  double FloorSeconds() override;
  std::size_t MaxMarks() const override;
  std::size_t MaxStepMarks() const override { return MaxMarks(); }
  // The host does the work itself: it never waits.
  void WhileBusy(const std::function<void()>& /*look*/) override {}
  double SecondsWaitedIn(const std::function<void()>& /*step*/) override { return 0; }
  bool HoldNextChunk(double /*seconds*/) override { return false; }
  double DeviceHertz() const override { return 0; }
  double EnqueueSeconds(double host_seconds) const override { return host_seconds; }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;  // with room for the chunk
  std::size_t marked_ = 0;
  std::vector<double> seconds_;
  std::optional<double> floor_;
};

}  // namespace roofbench::timing
