// SPDX-License-Identifier: Apache-2.0
// The roofs of a processor: streams through memory and caches, multiply-add loops, and added probes (a library's GEMM).
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "lib/hardware/device_facts.h"
#include "lib/hardware/roofs/memory_probe.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench::hardware {

class CpuRoofMeter final : public RoofMeter {
 public:
  static constexpr double kCalibrationSeconds = 0.0144;  // for each variant of a roof

  // `threads` is the size of the pool; probe buffers exceed the last-level cache sixteen times over.
  CpuRoofMeter(CpuFacts facts, int threads);

  // The variant that Calibrate found fastest with all threads; before Calibrate, the first of its kind.
  const StreamVariant& BestStream(StreamKind kind) const { return *best_streams_[Index(kind)]; }

  bool OthersRun() override;
  double LastLevelCacheBytes() const override { return facts_.LastLevelCacheBytes(); }
  double MostWorkingSet() override { return memory_.MostWorkingSet(); }

 protected:
  std::vector<Candidate> StreamCandidates(StreamKind kind) override;
  std::vector<Candidate> ComputeCandidates(workload::Dtype dtype) override;
  void Choose(StreamKind kind, const Candidate& winner) override;
  Rates MeasureStreams(const StreamShares& shares, double seconds) override;
  // Every thread cycles through its own share of the working set.
  double MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) override;

 private:
  const StreamVariant* BestInCache(StreamKind kind, double working_set_bytes);

  const CpuFacts facts_;
  const int threads_;
  MemoryProbe memory_;
  std::vector<pid_t> pool_threads_;  // once they were asked for
  std::array<const StreamVariant*, kStreamKinds.size()> best_streams_{};
  std::map<std::pair<StreamKind, double>, const StreamVariant*> cache_streams_;
  double memory_pace_ = 1;  // last observed, as a factor of the calibrated rates
};

}  // namespace roofbench::hardware
