// Measures this machine's roofs: once for the table, and again in slices beside every case.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/hardware/device_facts.h"
#include "lib/hardware/measured_roofs.h"
#include "lib/hardware/streams.h"

namespace roofbench::hardware {

// One line of the calibration: what was tried and what it reached.
struct RoofReading {
  std::string roof;     // "read", "copy", "update", "write", "fp32", "bf16", "int8"
  std::string variant;  // "prefetch", "fma avx512", "gemm onednn", …
  int threads = 1;
  double rate = 0;    // bytes/s or FLOP/s
  bool best = false;  // the variant that slices use
};

// Compute probes run on all the threads of the meter: a library's GEMM, say, beside our loops.
class RoofMeter final : public MeasuredRoofs {
 public:
  // `threads` is the size of the team; probe buffers exceed the last-level cache sixteen times over.
  RoofMeter(CpuFacts facts, int threads);
  ~RoofMeter() override;

  // Adds a way to reach the arithmetic roof of `dtype`, tried by Calibrate beside the loops.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Tries every variant of the streams (with one thread and with all) and of the named precisions for `seconds_each`,
  // round robin so that a change of the machine's speed hits all alike, and keeps the best of each. Precisions without
  // any way to reach them stay 0.
  void Calibrate(const std::vector<workload::Dtype>& dtypes, double seconds_each);

  // After Calibrate: the best rates with all threads, and every reading.
  const workload::Peaks& peaks() const override;
  const std::vector<RoofReading>& readings() const;

  // The variant that Calibrate found fastest with all threads; before Calibrate, the first of its kind.
  const StreamVariant& BestStream(StreamKind kind) const;

  double LastLevelCacheBytes() const override;

  // Over all threads: half of what the smallest level that holds `bytes` offers the threads of the team.
  double CacheWorkingSet(double bytes) const override;

  double MeasureMemory(const Mix& mix, double seconds) override;
  // Every thread goes round in its own part of the working set.
  double MeasureCache(const Mix& mix, double working_set_bytes, double seconds) override;
  double MeasureCompute(workload::Dtype dtype, double seconds) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roofbench::hardware
