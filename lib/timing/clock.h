// SPDX-License-Identifier: Apache-2.0
// How a chunk of steps is timed, on a device that may run behind the host.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace roofbench::timing {

// A clock that marks points in a device's stream of work.
//
// A chunk is: BeginChunk(n), then Mark(0), Mark(1), … between pieces of work in any number up to n, then EndChunk,
// which alone may wait for the device. On a GPU, BeginChunk places a short bounded sleep on the stream so that launches
// queue up ahead of the device, Mark records an event, and EndChunk reads them; on a CPU a mark is a read of the steady
// clock.
//
// Nothing here has a default: a clock in front of another must pass everything on.
class Clock {
 public:
  virtual ~Clock() = default;

  // Makes room for `marks` marks. Never called between a BeginChunk and its EndChunk.
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

  // The difference between two adjacent marks with nothing between them: the median of many, measured once.
  virtual double FloorSeconds() = 0;

  // Most marks that may wait in one chunk (a GPU's launch queue is about 1,000 deep).
  virtual std::size_t MaxMarks() const = 0;

  // Most marks of a chunk that is a single step, which may make more of them than are planned for.
  virtual std::size_t MaxStepMarks() const = 0;

  // From now on `look` is called now and then while the device works and the host would wait for it: for what can be
  // seen under load alone. nullptr: nobody is.
  virtual void WhileBusy(const std::function<void()>& look) = 0;

  // Calls `step` and returns the host seconds that it waited for the device in operations of its own, or returns 0 and
  // calls nothing where nobody can tell.
  virtual double SecondsWaitedIn(const std::function<void()>& step) = 0;

  // What of the `host_seconds` that passed on the host between the last BeginChunk and its EndChunk enqueueing took:
  // less than all of it where the host waited for room in a full launch queue.
  virtual double EnqueueSeconds(double host_seconds) const = 0;
};

}  // namespace roofbench::timing
