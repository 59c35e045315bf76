// SPDX-License-Identifier: Apache-2.0
// A device's queue of work, as far as a clock needs it: the seam between EventClock and CUDA.
#pragma once

#include <cstddef>

namespace roofbench::timing {

// Work is enqueued by others, on the same stream. Errors of the device are thrown as std::runtime_error.
class EventQueue {
 public:
  virtual ~EventQueue() = default;

  // Makes the events 0 … count - 1 exist. They are kept and used again, so this costs something only the first time.
  virtual void Reserve(std::size_t count) = 0;

  // Enqueues about `seconds` in which the device does nothing. It must end by itself: a sleep that waited for the host
  // would hang where a step synchronizes.
  virtual void Sleep(double seconds) = 0;

  // Enqueues the event. Never waits for the device.
  virtual void Record(std::size_t event) = 0;

  // Whether the device has passed the event.
  virtual bool IsPassed(std::size_t event) = 0;

  // Waits until the device has passed the event.
  virtual void Wait(std::size_t event) = 0;

  // Device seconds between two events that it has passed.
  virtual double SecondsBetween(std::size_t earlier, std::size_t later) = 0;
};

}  // namespace roofbench::timing
