// SPDX-License-Identifier: Apache-2.0
// Measures the roofs of a device: once for the table, and again in probes that are interleaved with every case. What a
// stream is, and how it is timed, is the business of CpuRoofMeter and GpuRoofMeter.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lib/hardware/roofs/contenders.h"
#include "lib/hardware/roofs/measured_roofs.h"
#include "lib/hardware/roofs/streams.h"
#include "lib/workload/dtype.h"

namespace roofbench::hardware {

// One line of the calibration: what was tried and what it reached.
struct RoofReading {
  std::string roof;     // "read", "copy", "update", "write", "fp32", "bf16", "int8"
  std::string variant;  // "prefetch", "fma avx512", "gemm onednn", …
  double rate = 0;      // bytes/s or FLOP/s
  bool best = false;    // the variant that later probes use
};

class RoofMeter : public MeasuredRoofs {
 public:
  // Adds a way to reach the arithmetic roof of `dtype`, tried by Calibrate beside the device's own.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Tries every variant of the streams and every way to the named precisions for `seconds_each`, and keeps the best of
  // each. Precisions without any way to reach them stay 0, and so does memory where its streams cannot run.
  void Calibrate(const std::vector<workload::Dtype>& dtypes, double seconds_each);

  // After Calibrate: the best rates with all threads, and every reading.
  const workload::Peaks& peaks() const final { return peaks_; }
  const std::vector<RoofReading>& readings() const { return readings_; }
  // How fast memory was read, from round to round.
  const RateRange& memory_speed() const { return memory_speed_; }

  // What has not been calibrated is, at its first use.
  double MeasureMemory(const TrafficMix& mix, double seconds) final;
  double MeasureCache(const TrafficMix& mix, double working_set_bytes, double seconds) final;
  double MeasureCompute(workload::Dtype dtype, double seconds) final;

 protected:
  // `roof_by_roof`: in Calibrate each stream has its rounds before the next, not all roofs the same.
  explicit RoofMeter(bool roof_by_roof) : roof_by_roof_(roof_by_roof) {}

  // The variants of all streams, `roof` being the stream's name; none where they cannot run.
  virtual std::vector<Contender> StreamContenders() = 0;
  // The device's own ways to a precision.
  virtual std::vector<Contender> ComputeContenders(workload::Dtype /*dtype*/) { return {}; }
  // Told of the winner of each stream.
  virtual void Choose(StreamKind kind, const Contender& winner) = 0;
  // Bytes/s of the chosen streams, each with its share of the traffic, some of which is not zero.
  virtual double MeasureStreams(const StreamShares& shares, double seconds) = 0;
  virtual double MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) = 0;

 private:
  struct NamedProbe {
    workload::Dtype dtype;
    std::string name;
    ComputeProbe probe;
  };

  void Calibrate(bool streams, const std::vector<workload::Dtype>& dtypes, double seconds_each);
  // Replaces the readings of the roofs that were measured.
  void Report(const std::vector<Contender>& contenders);

  const bool roof_by_roof_;
  std::vector<NamedProbe> probes_;
  workload::Peaks peaks_;
  std::vector<RoofReading> readings_;
  RateRange memory_speed_;
  bool streams_known_ = false;
  std::array<bool, workload::kDtypeCount> compute_known_{};
  std::array<std::function<double(double seconds)>, workload::kDtypeCount> compute_;
};

}  // namespace roofbench::hardware
