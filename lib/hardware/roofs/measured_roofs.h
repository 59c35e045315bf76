// SPDX-License-Identifier: Apache-2.0
// The measured roofs of one device, of any kind.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>

#include "lib/hardware/roofs/streams.h"
#include "lib/workload/cost.h"
#include "lib/workload/roofline.h"

namespace roofbench::hardware {

// Bytes of traffic by kind (both directions for copy and update), in any common scale.
struct TrafficMix {
  double read = 0;
  double copy = 0;
  double update = 0;
  double write = 0;
};

// As in RoofSeconds: in each operation, every written byte pairs with a read one.
TrafficMix MixOf(const workload::Cost& cost);

// The share of each stream in a mix, by Index(StreamKind): negligible streams are left out, and the others add up to 1.
// All zeros where nothing moves.
using StreamShares = std::array<double, kStreamKinds.size()>;
StreamShares SharesOf(const TrafficMix& mix);
bool MovesNothing(const StreamShares& shares);

// The bandwidth of a stream among the peaks.
double& Rate(workload::Peaks& peaks, StreamKind kind);

// The roofs that some work needs: those of its streams and of its precisions.
struct RoofNeeds {
  std::array<bool, kStreamKinds.size()> streams{};   // by Index(StreamKind)
  std::array<bool, workload::kDtypeCount> dtypes{};  // by workload::Index

  RoofNeeds& operator|=(const RoofNeeds& other);
};
RoofNeeds NeedsOf(const workload::Cost& cost);
// All streams, and these precisions.
RoofNeeds StreamsAnd(std::initializer_list<workload::Dtype> dtypes);

// Runs something for about `seconds` and returns its rate in FLOP/s; 0 if it cannot run.
using ComputeProbe = std::function<double(double seconds)>;

class MeasuredRoofs {
 public:
  virtual ~MeasuredRoofs() = default;

  // The best rates that the calibration saw.
  virtual const workload::Peaks& peaks() const = 0;

  // For all instances together.
  virtual double LastLevelCacheBytes() const = 0;

  // The working set that stands for the smallest cache level that holds `bytes`; 0 if no level holds it.
  virtual double CacheWorkingSet(double bytes) const = 0;

  // Bytes/s of this mix of traffic for about `seconds`, from memory beyond the last-level cache. 0 if nothing moves or
  // the device lacks memory for it.
  virtual double MeasureMemory(const TrafficMix& mix, double seconds) = 0;

  // The same inside a working set that lies in a cache.
  virtual double MeasureCache(const TrafficMix& mix, double working_set_bytes, double seconds) = 0;

  // FLOP/s of a precision for about `seconds`; 0 if it has none.
  virtual double MeasureCompute(workload::Dtype dtype, double seconds) = 0;
};

}  // namespace roofbench::hardware
