// Measures this machine's roofs: once for the table, and again in slices beside every case.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/hardware/device_facts.h"
#include "lib/hardware/streams.h"
#include "lib/workload/roofline.h"

namespace roofbench::hardware {

// One line of the calibration: what was tried and what it reached.
struct RoofReading {
  std::string roof;     // "read", "copy", "update", "write", "fp32", "bf16", "int8"
  std::string variant;  // "prefetch", "fma avx512", "gemm onednn", …
  int threads = 1;
  double rate = 0;    // bytes/s or FLOP/s
  bool best = false;  // the variant that slices use
};

// A computation that reaches an arithmetic roof by other means than our loops: a library's GEMM. Runs about `seconds`
// on all the threads of the meter and returns FLOP/s.
using ComputeProbe = std::function<double(double seconds)>;

class RoofMeter {
 public:
  // `threads` is the size of the team; probe buffers exceed the last-level cache sixteen times over.
  RoofMeter(CpuFacts facts, int threads);
  ~RoofMeter();

  // Adds a way to reach the arithmetic roof of `dtype`, tried by Calibrate beside the loops.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Tries every variant of the streams (with one thread and with all) and of the named precisions for `seconds_each`,
  // round robin so that a change of the machine's speed hits all alike, and keeps the best of each. Precisions without
  // any way to reach them stay 0.
  void Calibrate(const std::vector<workload::Dtype>& dtypes, double seconds_each);

  // After Calibrate: the best rates with all threads, and every reading.
  const workload::Peaks& peaks() const;
  const std::vector<RoofReading>& readings() const;

  // The variant that Calibrate found fastest with all threads; before Calibrate, the first of its kind.
  const StreamVariant& BestStream(StreamKind kind) const;

  // Bytes/s of this mix of traffic for about `seconds`, from memory beyond the last-level cache. Shares of zero are
  // left out. The fields are bytes of traffic (both directions for copy and update), in any common scale.
  struct Mix {
    double read = 0;
    double copy = 0;
    double update = 0;
    double write = 0;
  };
  static Mix MixOf(const workload::Cost& cost);
  double MeasureMemory(const Mix& mix, double seconds);

  // The same with every thread inside its own part of a working set of `working_set_bytes` in all, which lies in a
  // cache.
  double MeasureCache(const Mix& mix, double working_set_bytes, double seconds);

  // The working set (over all threads) that stands for the smallest cache level that holds `bytes` over the threads of
  // the team: half of what that level offers them. 0 if no level holds it.
  double CacheWorkingSet(double bytes) const;

  // FLOP/s of a precision for about `seconds`; 0 if it has none.
  double MeasureCompute(workload::Dtype dtype, double seconds);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace roofbench::hardware
