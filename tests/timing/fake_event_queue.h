// SPDX-License-Identifier: Apache-2.0
// A device with a launch queue of limited depth, whose time and whose host's time a test advances.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lib/timing/event_queue.h"

namespace roofbench::timing {

// The machine: outlives the clock that owns the queue.
struct FakeMachine {
  double host = 1;             // seconds
  double device = 0;           // when it will have done what is enqueued
  std::size_t depth = 1000;    // launches that may wait
  double record_seconds = 0;   // device time of an event
  double enqueue_seconds = 0;  // host time of a launch
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

  std::vector<double*>* gathered = nullptr;  // events that a graph will record, if one asks for them

  int sleeps = 0;
  int waits = 0;
  int early_reads = 0;  // of events that the device had not passed
  std::size_t created = 0;
};

class FakeEventQueue final : public EventQueue {
 public:
  explicit FakeEventQueue(FakeMachine& machine) : machine_(machine) {}

  void Reserve(std::size_t count) override {
    if (count > passed_.size()) {
      machine_.created += count - passed_.size();
      passed_.resize(count);
    }
  }
  void Sleep(double seconds) override {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 0.01) << "a sleep is short";
    ++machine_.sleeps;
    machine_.Launch(seconds);
  }
  void Record(std::size_t event) override {
    ASSERT_LT(event, passed_.size()) << "an event that was not reserved";
    if (machine_.gathered != nullptr) {
      machine_.gathered->push_back(&passed_[event]);
      return;
    }
    machine_.Launch(machine_.record_seconds);
    passed_[event] = machine_.device;
  }
  void Wait(std::size_t event) override {
    ++machine_.waits;
    machine_.host = std::max(machine_.host, passed_[event]);
  }
  double SecondsBetween(std::size_t earlier, std::size_t later) override {
    if (passed_[later] > machine_.host) ++machine_.early_reads;
    return passed_[later] - passed_[earlier];
  }

 private:
  FakeMachine& machine_;
  std::vector<double> passed_;
};

}  // namespace roofbench::timing
