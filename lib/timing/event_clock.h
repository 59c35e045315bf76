// SPDX-License-Identifier: Apache-2.0
// The part of a device's work queue that a clock needs: the seam between EventClock and CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lib/timing/clock.h"

namespace roofbench::timing {

// Other code enqueues the work, on the same stream. Errors of the device are thrown as std::runtime_error.
class EventQueue {
 public:
  virtual ~EventQueue() = default;

  // Creates the events 0 … count - 1. They are kept and reused, so only the first call is expensive.
  virtual void Reserve(std::size_t count) = 0;

  // Enqueues about `seconds` in which the device is idle. The sleep must end without the host: one that waited for the
  // host would hang where a step synchronizes.
  virtual void Sleep(double seconds) = 0;

  // The rate of the device's clock during the last sleep, which it has passed; 0 if it is not known.
  virtual double SleptHertz() const = 0;

  // Enqueues the event. Never waits for the device.
  virtual void Record(std::size_t event) = 0;

  // Whether the device has passed the event.
  virtual bool IsPassed(std::size_t event) = 0;

  // Waits until the device has passed the event.
  virtual void Wait(std::size_t event) = 0;

  // Device seconds between two events that it has passed.
  virtual double SecondsBetween(std::size_t earlier, std::size_t later) = 0;
};

// The clock of a device that lags the host: a mark is an event in the device's queue.
// A chunk is a short sleep of the device, during which launches queue up, and then events between the samples. They are
// read after the last one, so that the chunk never waits for the device.
class EventClock final : public Clock {
 public:
  // Calls a step and returns the host seconds that it waited for the device.
  using Waits = std::function<double(const std::function<void()>& step)>;

  // `host_seconds` replaces the steady clock in tests. Without `waits`, SecondsWaitedIn returns 0.
  explicit EventClock(std::unique_ptr<EventQueue> queue, std::function<double()> host_seconds = nullptr,
                      Waits waits = nullptr);

  void BeginChunk(std::size_t marks) override;
  void Mark() override;
  std::span<const double> EndChunk() override;
  double HostSeconds() override { return host_seconds_(); }
  double ProcessCpuSeconds() override;
  double FloorSeconds() override;
  std::size_t MaxMarks() const override;
  std::size_t MaxStepMarks() const override;
  void WhileBusy(const std::function<void()>& look) override { look_ = look; }
  double SecondsWaitedIn(const std::function<void()>& step) override { return waits_ ? waits_(step) : 0; }
  bool HoldNextChunk(double seconds) override;
  double DeviceHertz() const override { return hertz_; }
  double EnqueueSeconds(double host_seconds) const override;

  // The device's sleep at the start of every chunk: long enough for the first launches to get ahead of the device. A
  // longer one would hide the pace of a host that is slower than the device, and that pace sets the time of such a
  // case.
  static constexpr double kSleepSeconds = 50e-6;

 private:
  void LookWhileBusy();

  std::unique_ptr<EventQueue> queue_;
  std::function<double()> host_seconds_;
  Waits waits_;
  std::function<void()> look_;
  double began_ = 0;  // start of the chunk, on the host
  std::size_t room_ = 0;
  std::size_t marked_ = 0;
  std::vector<double> seconds_;
  std::optional<double> floor_;
  double sleep_seconds_ = kSleepSeconds;  // of the next chunk
  double hertz_ = 0;
  double waited_seconds_ = 0;  // by the last EndChunk
  double device_seconds_ = 0;  // from the first to the last mark of the last chunk
};

}  // namespace roofbench::timing
