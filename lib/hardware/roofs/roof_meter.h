// SPDX-License-Identifier: Apache-2.0
// Measures the roofs of a device: once for the table, and again in probes that are interleaved with every case.
// CpuRoofMeter and GpuRoofMeter define the streams and time them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "lib/hardware/roofs/candidates.h"
#include "lib/hardware/roofs/measured_roofs.h"
#include "lib/hardware/roofs/streams.h"
#include "lib/workload/dtype.h"

namespace roofbench::hardware {

// One line of the calibration: a variant and the rate that it reached.
struct RoofReading {
  std::string roof;     // "read", "copy", "update", "write", "fp32", "bf16", "int8"
  std::string variant;  // "prefetch", "fma avx512", "gemm onednn", …
  double rate = 0;      // bytes/s or FLOP/s
  bool best = false;    // the variant that later probes use
  RateRange range = {};
};

// The roofs that the readings cover.
RoofNeeds NeedsOf(const std::vector<RoofReading>& readings);

class RoofMeter : public MeasuredRoofs {
 public:
  // Adds a way to reach the arithmetic roof of `dtype`, which Calibrate tries with the device's own. Replaces an
  // earlier one of that name.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Measures the needed roofs that are not known yet: tries every variant for `seconds_each` and keeps the best.
  // Precisions without any variant stay 0, and so does memory where its streams cannot run.
  void Calibrate(const RoofNeeds& needs, double seconds_each);
  // Takes roofs from the readings of an earlier process instead of measuring them. A roof whose best variant does not
  // exist here stays unknown.
  void Restore(const std::vector<RoofReading>& readings);

  // The best rates with all threads, 0 where a roof is not known, and every reading.
  const workload::Peaks& peaks() const final { return peaks_; }
  const std::vector<RoofReading>& readings() const { return readings_; }
  // The scatter of the read rate over the rounds.
  const RateRange& memory_speed() const { return memory_speed_; }

  // An unknown roof is calibrated on first use.
  double MeasureMemory(const TrafficMix& mix, double seconds) final;
  double MeasureCache(const TrafficMix& mix, double working_set_bytes, double seconds) final;
  double MeasureCompute(workload::Dtype dtype, double seconds) final;

 protected:
  // `roof_by_roof`: Calibrate finishes each stream's rounds before the next stream, instead of interleaving all roofs.
  explicit RoofMeter(bool roof_by_roof) : roof_by_roof_(roof_by_roof) {}

  // The variants of all streams, `roof` being the stream's name; none where they cannot run.
  virtual std::vector<Candidate> StreamCandidates() = 0;
  // The device's own ways to a precision.
  virtual std::vector<Candidate> ComputeCandidates(workload::Dtype /*dtype*/) { return {}; }
  // Called with the winner of each stream.
  virtual void Choose(StreamKind kind, const Candidate& winner) = 0;
  // Bytes/s of the chosen streams, each with its share of the traffic; at least one share is not zero.
  virtual double MeasureStreams(const StreamShares& shares, double seconds) = 0;
  virtual double MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) = 0;

 private:
  struct NamedProbe {
    workload::Dtype dtype;
    std::string name;
    ComputeProbe probe;
  };

  RoofNeeds Unknown(RoofNeeds needs) const;
  // The needed streams, then the needed precisions.
  std::vector<Candidate> CandidatesFor(const RoofNeeds& needs);
  // Makes the winners of `needs` the roofs, and marks these as known.
  void Take(const RoofNeeds& needs, const std::vector<Candidate>& candidates);

  const bool roof_by_roof_;
  std::vector<NamedProbe> probes_;
  workload::Peaks peaks_;
  std::vector<RoofReading> readings_;
  RateRange memory_speed_;
  RoofNeeds known_;
  std::array<std::function<double(double seconds)>, workload::kDtypeCount> compute_;
};

}  // namespace roofbench::hardware
