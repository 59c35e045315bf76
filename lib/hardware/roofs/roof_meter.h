// SPDX-License-Identifier: Apache-2.0
// Measures the roofs of a device: once for the table, and again in probes that are interleaved with every case.
// CpuRoofMeter and GpuRoofMeter define the streams and time them.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/streams.h"
#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"
#include "lib/workload/roofline.h"

namespace roofbench::hardware {

// The share of each stream in a mix, by Index(StreamKind): negligible streams are left out, and the others add up to 1.
// All zeros where nothing moves.
using StreamShares = std::array<double, kStreamKinds.size()>;
StreamShares SharesOf(const workload::Traffic& mix);
bool MovesNothing(const StreamShares& shares);

// The bandwidth of a stream among the peaks.
double& Rate(workload::Peaks& peaks, StreamKind kind);

// The scatter of a roof during its measurement: a tenth of the rounds were slower, a tenth faster. Zeros: unknown.
struct RateRange {
  double slow = 0;
  double fast = 0;
};

// One line of the calibration: a variant and the rate that it reached.
struct RoofReading {
  std::string roof;     // "read", "copy", "update", "write", "fp32", "bf16", "int8"
  std::string variant;  // "prefetch", "fma avx512", "gemm onednn", …
  double rate = 0;      // bytes/s or FLOP/s
  bool best = false;    // the variant that later probes use
  RateRange range = {};
};

// The roofs that some work needs: those of its streams and of its precisions.
struct RoofNeeds {
  std::bitset<kStreamKinds.size()> streams;   // by Index(StreamKind)
  std::bitset<workload::kDtypeCount> dtypes;  // by workload::Index

  RoofNeeds& operator|=(const RoofNeeds& other);
};
RoofNeeds NeedsOf(const workload::Cost& cost);
// The roofs that the readings cover.
RoofNeeds NeedsOf(const std::vector<RoofReading>& readings);
// All streams, and these precisions.
RoofNeeds StreamsAnd(std::initializer_list<workload::Dtype> dtypes);

// A way to reach a roof.
struct Candidate {
  std::string roof = {};
  std::string variant = {};
  std::function<double(double seconds)> measure = {};
  std::size_t index = 0;  // set by the code that made it
  double rate = 0;        // the reached rate
  RateRange range = {};
  double standing = 0;  // median over the rounds of its rate divided by the median rate of all candidates for its roof
};

// Measures each candidate for about `seconds_each`, in rounds in which all take turns, so that a change of the
// machine's speed affects all alike. A candidate's rate is the upper quartile over its rounds.
void Compete(std::span<Candidate> candidates, double seconds_each);

// The candidate for a roof with the highest standing, the first among equals; nullptr if none reaches anything. The
// reached rates do not decide: a shared machine changes its speed within milliseconds, and may have been faster during
// one candidate's turn. On a two-core EPYC (2026-11-23) the rates had selected as the read roof a stream that was 14 %
// slower than the fastest one when both took turns.
const Candidate* Winner(std::span<const Candidate> candidates, std::string_view roof);

class RoofMeter {
 public:
  virtual ~RoofMeter() = default;

  // Adds a way to reach the arithmetic roof of `dtype`, which Calibrate tries with the device's own. Replaces an
  // earlier one of that name.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Measures the needed roofs that are not known yet: tries every variant for `seconds_each` and keeps the best.
  // Precisions without any variant stay 0, and so does memory where its streams cannot run.
  void Calibrate(const RoofNeeds& needs, double seconds_each);
  // Takes roofs from the readings of an earlier process instead of measuring them. A roof whose best variant does not
  // exist here stays unknown. The first Calibrate that needs a restored stream probes it briefly, and measures it again
  // if it has left the scatter of the earlier readings: where virtual machines share memory, its speed changes within
  // minutes, and with it the fastest variant. Other programs on the processors do not count as a change.
  void Restore(const std::vector<RoofReading>& readings);

  // The best rates with all threads, 0 where a roof is not known, and every reading.
  const workload::Peaks& peaks() const { return peaks_; }
  const std::vector<RoofReading>& readings() const { return readings_; }
  // The scatter of the read rate over the rounds.
  const RateRange& memory_speed() const { return memory_speed_; }

  // Whether threads of this process take processors from the probes now, other than those that run the probes.
  virtual bool OthersRun() { return false; }
  // All instances together.
  virtual double LastLevelCacheBytes() const = 0;
  // The largest working set that MeasureCache can cycle through, in bytes; 0 if there is no memory for it.
  virtual double MostWorkingSet() = 0;

  // Bytes/s of this mix of traffic for about `seconds`, from memory beyond the last-level cache. 0 if nothing moves or
  // the device lacks memory for it. This and MeasureCompute calibrate an unknown roof on first use.
  double MeasureMemory(const workload::Traffic& mix, double seconds);
  // The same, cycling through a working set of that many bytes.
  double MeasureCache(const workload::Traffic& mix, double working_set_bytes, double seconds);
  // FLOP/s of a precision for about `seconds`; 0 if it has none.
  double MeasureCompute(workload::Dtype dtype, double seconds);

 protected:
  // `roof_by_roof`: Calibrate finishes each stream's rounds before the next stream, instead of interleaving all roofs.
  explicit RoofMeter(bool roof_by_roof) : roof_by_roof_(roof_by_roof) {}

  // The variants of a stream; none where it cannot run.
  virtual std::vector<Candidate> StreamCandidates(StreamKind kind) = 0;
  // The device's own ways to a precision.
  virtual std::vector<Candidate> ComputeCandidates(workload::Dtype /*dtype*/) { return {}; }
  // Called with the winner of each stream.
  virtual void Choose(StreamKind kind, const Candidate& winner) = 0;
  // Bytes/s of the chosen streams, each with its share of the traffic; at least one share is not zero.
  virtual Rates MeasureStreams(const StreamShares& shares, double seconds) = 0;
  virtual double MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) = 0;

 private:
  struct NamedProbe {
    workload::Dtype dtype;
    std::string name;
    ComputeProbe probe;
  };

  // The needed streams, then the needed precisions.
  std::vector<Candidate> CandidatesFor(const RoofNeeds& needs);
  // Makes the winners of `needs` the roofs, and marks these as known.
  void Take(const RoofNeeds& needs, const std::vector<Candidate>& candidates);
  // Probes those of `needs` that were restored and not probed yet, and forgets the ones that have changed.
  void RecheckRestored(const RoofNeeds& needs);
  bool HasChanged(const RoofReading& best);

  const bool roof_by_roof_;
  std::vector<NamedProbe> probes_;
  workload::Peaks peaks_;
  std::vector<RoofReading> readings_;
  RateRange memory_speed_;
  RoofNeeds known_;
  RoofNeeds unchecked_;  // streams that were restored, and not probed since
  std::array<ComputeProbe, workload::kDtypeCount> compute_;
};

}  // namespace roofbench::hardware
