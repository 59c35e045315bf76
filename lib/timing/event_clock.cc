// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/event_clock.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "lib/timing/clock.h"

namespace roofbench::timing {
namespace {

// A launch queue holds about 1,000 entries, and the host waits while it is full. The steps of a chunk take at least a
// launch each, the marks between them one each, and the sleep and the end of the chunk two.
constexpr std::size_t kMaxMarks = 490;
// The stages of a large model in LLM.int8() take more. A step with that many launches fills the queue in any case, and
// the marks, which the device makes, remain correct.
constexpr std::size_t kMaxStepMarks = 8192;
constexpr std::size_t kFloorMarks = 200;

// A device that finishes this soon after its last launch has waited for the host: the time covers an empty wait, and
// the last steps of a chunk.
constexpr double kIdleSeconds = 50e-6;
constexpr double kIdleShare = 0.02;

}  // namespace

EventClock::EventClock(std::unique_ptr<EventQueue> queue, std::function<double()> host_seconds, Waits waits)
    : queue_(std::move(queue)), host_seconds_(std::move(host_seconds)), waits_(std::move(waits)) {
  if (!host_seconds_) host_seconds_ = [] { return CpuClock().HostSeconds(); };
}

void EventClock::BeginChunk(std::size_t marks) {
  queue_->Reserve(marks + 1);
  seconds_.resize(marks);
  room_ = marks;
  marked_ = 0;
  began_ = host_seconds_();
  queue_->Sleep(std::exchange(sleep_seconds_, kSleepSeconds));
}

bool EventClock::HoldNextChunk(double seconds) {
  sleep_seconds_ = std::max(kSleepSeconds, seconds);
  return true;
}

void EventClock::Mark() {
  if (marked_ == room_) throw std::logic_error("more marks than the chunk has room for");
  queue_->Record(marked_++);
}

std::span<const double> EventClock::EndChunk() {
  waited_seconds_ = 0;
  device_seconds_ = 0;
  hertz_ = 0;
  if (marked_ == 0) return {};
  const double start = host_seconds_();
  // Waits for an event that was recorded here: a graph may record the last mark, and an event that only the device
  // records cannot be waited for until the device does.
  queue_->Record(room_);
  LookWhileBusy();
  queue_->Wait(room_);
  waited_seconds_ = host_seconds_() - start;
  hertz_ = queue_->SleptHertz();
  // Added one by one: a difference is a float in CUDA, whose rounding error grows with its size.
  for (std::size_t i = 0; i < marked_; ++i) {
    if (i > 0) device_seconds_ += queue_->SecondsBetween(i - 1, i);
    seconds_[i] = device_seconds_;
  }
  return std::span(seconds_).first(marked_);
}

// Looks only if the device stays busy for longer than one that waits for launches would: a look takes a millisecond,
// during which a waiting device would finish and then seem to have been busy throughout.
void EventClock::LookWhileBusy() {
  if (!look_) return;
  const double start = host_seconds_();
  const double idle = std::max(kIdleSeconds, kIdleShare * (start - began_));
  while (host_seconds_() - start <= idle) {
    if (queue_->IsPassed(room_)) return;
  }
  look_();
}

double EventClock::ProcessCpuSeconds() { return CpuClock().ProcessCpuSeconds(); }

double EventClock::FloorSeconds() {
  if (floor_) return *floor_;
  MedianGap(*this, kFloorMarks);  // absorbs one-time setup
  return floor_.emplace(MedianGap(*this, kFloorMarks));
}

std::size_t EventClock::MaxMarks() const { return kMaxMarks; }

std::size_t EventClock::MaxStepMarks() const { return kMaxStepMarks; }

double EventClock::EnqueueSeconds(double host_seconds) const {
  // All work was enqueued while the device slept: the queue was never full, since a full one would have made the host
  // wait.
  if (host_seconds <= kSleepSeconds) return host_seconds;
  // The device ended together with the host: it had been waiting for launches.
  if (waited_seconds_ <= std::max(kIdleSeconds, kIdleShare * device_seconds_)) return host_seconds;
  // The device was busy to the end. The host spent its excess over the device's time at a full queue.
  return std::min(host_seconds, device_seconds_);
}

}  // namespace roofbench::timing
