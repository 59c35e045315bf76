// SPDX-License-Identifier: Apache-2.0
// The clock of work that runs on the calling host: a mark is a read of the steady clock.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "lib/timing/clock.h"

namespace roofbench::timing {

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
  // The host is what works: it never waits.
  void WhileBusy(const std::function<void()>& /*look*/) override {}
  double SecondsWaitedIn(const std::function<void()>& /*step*/) override { return 0; }
  double EnqueueSeconds(double host_seconds) const override { return host_seconds; }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;  // with room for the chunk
  std::size_t marked_ = 0;
  std::vector<double> seconds_;
  std::optional<double> floor_;
};

}  // namespace roofbench::timing
