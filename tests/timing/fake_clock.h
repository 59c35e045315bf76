// SPDX-License-Identifier: Apache-2.0
// Clocks whose time a test advances, and which fail the test where the rules of Clock are broken.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/timing/clock.h"

namespace roofbench::timing {

// A processor: the host and the device are one, and work takes the time by which it advances the clock.
class FakeClock : public Clock {
 public:
  struct Traits {
    double floor = 0;
    double granularity = 0;  // marks are multiples of it; 0: exact
    std::size_t max_marks = 8192;
  };

  FakeClock() : FakeClock(Traits{}) {}
  explicit FakeClock(const Traits& traits) : traits_(traits) {}

  // `processors` of them are busy during it.
  void Advance(double seconds, double processors = 1) {
    host_ += seconds;
    cpu_ += seconds * processors;
  }

  // The log of events: '(' and ')' are the ends of a chunk; tests add their own letters.
  std::string log;

  bool InChunk() const { return in_chunk_; }

  void BeginChunk(std::size_t marks) override {
    EXPECT_FALSE(in_chunk_) << "BeginChunk in a chunk";
    EXPECT_LE(marks, traits_.max_marks);
    in_chunk_ = true;
    room_ = marks;
    marks_.clear();
    log += '(';
  }

  void Mark() override {
    EXPECT_TRUE(in_chunk_) << "Mark outside of a chunk";
    EXPECT_LT(marks_.size(), room_) << "a mark that BeginChunk did not make room for";
    marks_.push_back(Stamp());
  }

  std::span<const double> EndChunk() override {
    EXPECT_TRUE(in_chunk_) << "EndChunk outside of a chunk";
    in_chunk_ = false;
    log += ')';
    Synchronize();
    const double first = marks_.empty() ? 0 : marks_.front();
    for (double& mark : marks_) mark = Quantized(mark) - Quantized(first);
    return marks_;
  }

  double HostSeconds() override { return host_; }
  double ProcessCpuSeconds() override { return cpu_; }
  double FloorSeconds() override { return traits_.floor; }
  std::size_t MaxMarks() const override { return traits_.max_marks; }
  std::size_t MaxStepMarks() const override { return traits_.max_marks; }
  void WhileBusy(const std::function<void()>& /*look*/) override {}
  double SecondsWaitedIn(const std::function<void()>& /*step*/) override { return 0; }
  bool HoldNextChunk(double /*seconds*/) override { return false; }
  double DeviceHertz() const override { return hertz; }
  double EnqueueSeconds(double host_seconds) const override { return host_seconds; }

  double hertz = 0;  // of the device

 protected:
  // When the device passes a mark made now.
  virtual double Stamp() const { return host_; }
  // Waits for the device.
  virtual void Synchronize() {}

  double host_ = 1;  // not 0: only differences mean anything
  double cpu_ = 10;

 private:
  double Quantized(double seconds) const {
    return traits_.granularity > 0 ? std::floor(seconds / traits_.granularity) * traits_.granularity : seconds;
  }

  const Traits traits_;
  bool in_chunk_ = false;
  std::size_t room_ = 0;
  std::vector<double> marks_;
};

// An asynchronous device: work is queued, and the host synchronizes with the device only at the end of a chunk.
class FakeDeviceClock final : public FakeClock {
 public:
  using FakeClock::FakeClock;

  // The host takes `host_seconds` to queue work that the device takes `device_seconds` to do.
  void Enqueue(double host_seconds, double device_seconds) {
    Advance(host_seconds);
    device_ = std::max(device_, host_) + device_seconds;
  }

  // A sleep of the device, during which work queues up.
  void BeginChunk(std::size_t marks) override {
    FakeClock::BeginChunk(marks);
    Enqueue(0, kSleepSeconds);
  }

  static constexpr double kSleepSeconds = 1e-3;

 private:
  double Stamp() const override { return std::max(device_, host_); }
  void Synchronize() override { Advance(std::max(device_ - host_, 0.0)); }

  double device_ = 0;
};

}  // namespace roofbench::timing
