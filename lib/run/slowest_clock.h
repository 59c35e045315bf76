// SPDX-License-Identifier: Apache-2.0
// The clock of several ranks that take samples in step: each of them reads the same times, those of the slowest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lib/ranks/group.h"
#include "lib/timing/clock.h"

namespace roofbench {

// Wraps the clock of each rank. The ranks exchange their marks at the end of a chunk, outside of what is timed, and so
// do they rank 0's host time and wish to end: a sampler under this clock decides the same on every rank. A mark of a
// sample is when the last rank has reached it, counted from the start of the sample, at which all ranks meet.
class SlowestClock final : public timing::ForwardingClock {
 public:
  // `interrupted` is polled on rank 0; `other_cpu` returns the CPU seconds of further ranks on this machine. Every rank
  // constructs it at the same time. Every function that communicates throws ranks::ContactLost.
  SlowestClock(timing::Clock& clock, ranks::Group& group, std::function<bool()> interrupted,
               std::function<double()> other_cpu);

  // The device waits for those of all ranks. The next mark starts a sample.
  void BeginSample();
  // Whether rank 0 wished to end at the last exchange.
  bool interrupted() const { return interrupted_; }

  // For the samples since Restart: the median of the seconds between the first rank's end and the last rank's, and the
  // rank that was last most often.
  void Restart() { skews_.clear(), lasts_.assign(lasts_.size(), 0); }
  double SkewSeconds() const;
  int LastRank() const;

  void BeginChunk(std::size_t marks) override;
  void Mark() override;
  std::span<const double> EndChunk() override;
  // Rank 0's, at the last exchange.
  double HostSeconds() override { return host_seconds_; }
  double ProcessCpuSeconds() override { return Wrapped().ProcessCpuSeconds() + other_cpu_(); }
  // The time in which all ranks meet: they leave the meeting at moments that differ by less.
  double FloorSeconds() override;
  // A rank that repeated a chunk, or added one, would wait for the others.
  bool HoldNextChunk(double /*seconds*/) override { return false; }
  double DeviceHertz() const override { return 0; }

 private:
  // Exchanges these numbers, as many on each rank, with those of the other ranks; updates what rank 0 decides.
  std::vector<std::vector<double>> Exchange(std::span<const double> mine);
  void NoteSample(const std::vector<double>& seconds);

  ranks::Group& group_;
  const std::function<bool()> poll_interrupted_;
  const std::function<double()> other_cpu_;
  double host_seconds_ = 0;
  bool interrupted_ = false;
  bool starts_sample_ = false;
  std::size_t marked_ = 0;           // in this chunk
  std::vector<std::size_t> starts_;  // the marks that start a sample
  std::vector<double> marks_;        // of the slowest rank
  std::vector<double> skews_;
  std::vector<int64_t> lasts_;  // samples that each rank ended last
  std::optional<double> floor_;
};

}  // namespace roofbench
