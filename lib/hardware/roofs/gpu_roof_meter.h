// SPDX-License-Identifier: Apache-2.0
// The roofs of a GPU: streams through its memory and its L2, and added products.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "lib/hardware/roofs/gpu_streams.h"
#include "lib/hardware/roofs/roof_meter.h"

namespace roofbench::hardware {

// Added probes report the best of the rounds: they are long enough that luck does not matter.
class GpuRoofMeter final : public RoofMeter {
 public:
  // `streams` must outlive the meter.
  GpuRoofMeter(GpuStreams& streams, double l2_bytes, double memory_bytes);
  ~GpuRoofMeter() override;
  GpuRoofMeter(const GpuRoofMeter&) = delete;
  GpuRoofMeter& operator=(const GpuRoofMeter&) = delete;

  // Runs every stream over a small buffer and checks its result: a wrong probe must not define a roof. Returns the
  // fault, or an empty text. With a fault, Calibrate leaves the memory roofs 0: unknown.
  std::string CheckStreams();

  // The fault that prevented measuring the memory roofs; empty if there is none.
  const std::string& fault() const { return fault_; }
  // The variant that Calibrate found fastest.
  int BestVariant(StreamKind kind) const { return best_[Index(kind)]; }

  // Enqueues reads of the buffers that leave next to nothing else in the L2. False with a fault.
  bool DisplaceCache();

  double LastLevelCacheBytes() const override { return l2_bytes_; }
  double MostWorkingSet() override { return MakeBuffers() ? static_cast<double>(buffer_bytes_) : 0; }

 protected:
  std::vector<Candidate> StreamCandidates(StreamKind kind) override;
  void Choose(StreamKind kind, const Candidate& winner) override;
  Rates MeasureStreams(const StreamShares& shares, double seconds) override;
  double MeasureStreamsInCache(const StreamShares& shares, double working_set_bytes, double seconds) override;

 private:
  bool MakeBuffers();
  void FillBuffers();
  void WarmUp();
  // Appends passes of one stream over `bytes` bytes, from where the last one stopped.
  void AddPasses(StreamKind kind, int variant, double bytes, std::vector<GpuPass>& passes);
  // Bytes/s of the traffic of all passes; 0 where the device does not report the time.
  double RateOf(const std::vector<GpuPass>& passes);
  double MeasureStream(StreamKind kind, int variant, double seconds);
  std::string CheckStream(StreamKind kind, int variant);

  GpuStreams& streams_;
  double l2_bytes_;
  double memory_bytes_;
  std::byte* first_ = nullptr;  // streams read one and write the other, and swap them after each lap
  std::byte* second_ = nullptr;
  std::byte* sum_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  std::size_t cursor_ = 0;
  bool tried_ = false;
  std::string fault_;  // empty if the buffers are usable, once tried
  std::array<int, kStreamKinds.size()> best_{};
  std::array<double, kStreamKinds.size()> pace_{};        // bytes/s of traffic from memory, last observed
  std::array<double, kStreamKinds.size()> cache_pace_{};  // the same in a cache
};

}  // namespace roofbench::hardware
