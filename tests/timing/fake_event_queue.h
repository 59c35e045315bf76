// SPDX-License-Identifier: Apache-2.0
// A device with a launch queue of limited depth, whose time and whose host's time a test advances.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "gtest/gtest.h"
#include "lib/timing/event_clock.h"

namespace roofbench::timing {

// When the device passes it.
struct FakeEvent {
  double passed = 0;
  // Recorded by a graph, on the device: before that, the host takes it for an event that was passed long ago.
  bool by_graph = false;
};

// The machine: outlives the clock that owns the queue.
struct FakeMachine {
  double host = 1;             // seconds
  double device = 0;           // when the enqueued work will be done
  std::size_t depth = 1000;    // launches that may wait
  double record_seconds = 0;   // device time of an event
  double enqueue_seconds = 0;  // host time of a launch
  double graph_seconds = 0;    // device time of a graph's launch, before its work
  std::deque<double> waiting;  // when each waiting launch ends on the device

  void Launch(double device_seconds) {
    while (!waiting.empty() && waiting.front() <= host) waiting.pop_front();
    if (waiting.size() >= depth) {  // the host waits for room
      host = std::max(host, waiting.front());
      waiting.pop_front();
    }
    host += enqueue_seconds;
    device = std::max(device, host) + device_seconds;
    waiting.push_back(device);
  }

  double hertz = 0;                             // of the device's clock
  std::vector<FakeEvent*>* gathered = nullptr;  // events that a graph will record, if one asks for them

  int sleeps = 0;
  int waits = 0;
  int early_reads = 0;  // of events that the device had not passed
  std::size_t created = 0;
};

class FakeEventQueue final : public EventQueue {
 public:
  explicit FakeEventQueue(FakeMachine& machine) : machine_(machine) {}

  void Reserve(std::size_t count) override {
    if (count > events_.size()) {
      machine_.created += count - events_.size();
      events_.resize(count);
    }
  }
  void Sleep(double seconds) override {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 0.051) << "a sleep is short";
    ++machine_.sleeps;
    machine_.Launch(seconds);
  }
  double SleptHertz() const override { return machine_.hertz; }
  void Record(std::size_t event) override {
    ASSERT_LT(event, events_.size()) << "an event that was not reserved";
    if (machine_.gathered != nullptr) {
      machine_.gathered->push_back(&events_[event]);
      return;
    }
    machine_.Launch(machine_.record_seconds);
    events_[event] = {.passed = machine_.device};
  }
  bool IsPassed(std::size_t event) override {
    constexpr double kQuery = 1e-6;
    machine_.host += kQuery;
    return events_[event].passed <= machine_.host;
  }
  void Wait(std::size_t event) override {
    ++machine_.waits;
    if (!events_[event].by_graph) machine_.host = std::max(machine_.host, events_[event].passed);
  }
  double SecondsBetween(std::size_t earlier, std::size_t later) override {
    if (events_[later].passed > machine_.host) ++machine_.early_reads;
    return events_[later].passed - events_[earlier].passed;
  }

 private:
  FakeMachine& machine_;
  std::vector<FakeEvent> events_;
};

}  // namespace roofbench::timing
