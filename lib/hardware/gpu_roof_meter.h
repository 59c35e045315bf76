// Measures the roofs of a GPU: once for the table, and again in slices beside every case.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/hardware/gpu_streams.h"
#include "lib/hardware/measured_roofs.h"
#include "lib/workload/dtype.h"

namespace roofbench::hardware {

class GpuRoofMeter final : public MeasuredRoofs {
 public:
  // `streams` must outlive the meter.
  GpuRoofMeter(GpuStreams& streams, double l2_bytes, double memory_bytes);
  ~GpuRoofMeter() override;
  GpuRoofMeter(const GpuRoofMeter&) = delete;
  GpuRoofMeter& operator=(const GpuRoofMeter&) = delete;

  // Runs every stream over a small buffer and looks at what it did: a probe that is wrong must not define a roof.
  // Returns what is wrong, or an empty text.
  std::string CheckStreams();

  // Adds a way to reach the arithmetic roof of `dtype`.
  void AddComputeProbe(workload::Dtype dtype, std::string name, ComputeProbe probe);

  // Tries every variant of the streams and every probe for `seconds_each`, round robin, and keeps the best of each. If
  // CheckStreams finds a fault, the memory roofs stay 0: unknown.
  void Calibrate(const std::vector<workload::Dtype>& dtypes, double seconds_each);

  // The fault that kept the memory roofs from being measured; empty if there is none.
  const std::string& fault() const { return fault_; }
  // The variant that Calibrate found fastest.
  int BestVariant(StreamKind kind) const;

  const workload::Peaks& peaks() const override { return peaks_; }
  double LastLevelCacheBytes() const override { return l2_bytes_; }
  double CacheWorkingSet(double bytes) const override;
  double MeasureMemory(const Mix& mix, double seconds) override;
  double MeasureCache(const Mix& mix, double working_set_bytes, double seconds) override;
  double MeasureCompute(workload::Dtype dtype, double seconds) override;

 private:
  static constexpr std::size_t kKinds = 4;
  struct Probe {
    workload::Dtype dtype;
    std::string name;
    ComputeProbe run;
    double rate = 0;
  };

  bool MakeBuffers();
  void FillBuffers();
  // Appends passes of one stream over `bytes` bytes, from where the last one stopped.
  void AddPasses(StreamKind kind, int variant, double bytes, std::vector<GpuPass>& passes);
  double MeasureStream(StreamKind kind, int variant, double seconds);
  std::string CheckStream(StreamKind kind, int variant);

  GpuStreams& streams_;
  double l2_bytes_;
  double memory_bytes_;
  std::byte* first_ = nullptr;  // streams read one and write the other, and change over after each lap
  std::byte* second_ = nullptr;
  std::byte* sum_ = nullptr;
  std::size_t buffer_bytes_ = 0;
  std::size_t cursor_ = 0;
  bool tried_ = false;
  bool usable_ = false;
  std::string fault_;
  std::array<int, kKinds> best_{};
  std::array<double, kKinds> pace_{};        // bytes/s of traffic from memory, last seen
  std::array<double, kKinds> cache_pace_{};  // the same in a cache
  std::vector<Probe> probes_;
  std::array<std::size_t, workload::kDtypeCount> best_probe_{};  // 1 + index into probes_; 0: none
  workload::Peaks peaks_;
};

}  // namespace roofbench::hardware
