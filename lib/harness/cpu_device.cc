#include "lib/harness/cpu_device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "lib/harness/gemm_probe.h"

namespace roofbench {
namespace {

using hardware::RoofMeter;
using workload::Bound;
using workload::Dtype;

constexpr double kCalibrationSlice = 0.008;  // seconds of one reading; RoofMeter takes several of each
constexpr double kCacheSlice = 0.004;

int SetThreads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
  return at::get_num_threads();
}

// Times that the kernel reports a core as slowed down for heat, where the processor says so (Intel).
double ThrottleEvents() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count");
  double events = 0;
  file >> events;
  return file ? events : 0;
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : threads_(SetThreads(threads)), facts_(hardware::ReadCpuFacts()), meter_(facts_, threads_) {}

absl::Status CpuDevice::Supports(Dtype dtype) const {
  if (dtype == Dtype::kTf32) return absl::UnimplementedError("tf32 is a CUDA precision");
  if (facts_.Supports(dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("this processor has no ", std::string(Name(dtype)),
                                               " arithmetic, so the case would take hundreds of times its roof"));
}

std::vector<std::pair<std::string, std::string>> CpuDevice::Context() const {
  std::vector<std::string> caches;
  for (const auto& cache : facts_.caches) {
    caches.push_back(
        absl::StrCat("L", cache.level, " ", static_cast<int64_t>(cache.bytes / 1024), " KiB per ", cache.shared_by));
  }
  return {{"device_arch", facts_.arch},
          {"cpu_isa", facts_.isa},
          {"cpu_count", absl::StrCat(facts_.logical_cpus)},
          {"cpu_affinity", absl::StrJoin(facts_.affinity, ",")},
          {"cpu_governor", facts_.governor},
          {"cpu_caches", absl::StrJoin(caches, ", ")},
          {"huge_pages", facts_.huge_pages},
          {"memory_bytes", absl::StrCat(static_cast<int64_t>(facts_.total_memory_bytes))}};
}

Conditions CpuDevice::ReadConditions() const {
  const hardware::ProcessorTime time = hardware::ReadProcessorTime().value_or(hardware::ProcessorTime{});
  return {.stolen_seconds = time.stolen, .busy_seconds = time.busy, .throttle_events = ThrottleEvents()};
}

void CpuDevice::Calibrate(const std::vector<Dtype>& dtypes) {
  std::vector<Dtype> wanted = {Dtype::kFp32};
  for (const Dtype dtype : dtypes) {
    if (facts_.Supports(dtype) && dtype != Dtype::kFp32) wanted.push_back(dtype);
  }
  for (const Dtype dtype : wanted) {
    for (auto& [name, probe] : GemmProbes(dtype)) meter_.AddComputeProbe(dtype, name, std::move(probe));
  }
  meter_.Calibrate(wanted, kCalibrationSlice);
}

workload::Peaks CpuDevice::CachePeaks(double working_set) {
  const auto found = cache_peaks_.find(working_set);
  if (found != cache_peaks_.end()) return found->second;
  const auto best_of = [&](const RoofMeter::Mix& mix) {
    double best = 0;
    for (int i = 0; i < 3; ++i) best = std::max(best, meter_.MeasureCache(mix, working_set, kCacheSlice));
    return best;
  };
  workload::Peaks peaks = meter_.peaks();
  peaks.read = best_of({.read = 1});
  peaks.copy = best_of({.copy = 1});
  peaks.update = best_of({.update = 1});
  peaks.write = best_of({.write = 1});
  return cache_peaks_.emplace(working_set, peaks).first->second;
}

RoofGauge CpuDevice::Gauge(const workload::Cost& cost, CacheState cache) {
  RoofGauge gauge{.peaks = meter_.peaks(), .name = "memory"};
  double working_set = 0;  // 0: memory
  if (cache == CacheState::kWarm) {
    working_set = meter_.CacheWorkingSet(cost.resident_bytes);
    // Beyond the last level a part of the operands survives in it from step to step. Its rate is an upper bound then,
    // until eight times its size, from where on next to nothing survives.
    const double last_level = facts_.LastLevelCacheBytes();
    if (working_set == 0 && cost.resident_bytes < 8 * last_level) working_set = meter_.CacheWorkingSet(last_level / 4);
    if (working_set > 0) {
      gauge.peaks = CachePeaks(working_set);
      gauge.name = absl::StrCat("caches (", static_cast<int64_t>(working_set / 1024), " KiB)");
    }
  }
  gauge.bound = workload::BindingRoof(cost, gauge.peaks);
  const std::optional<Dtype> dtype = workload::DominantDtype(cost, gauge.peaks);
  if (gauge.bound == Bound::kCompute && dtype) {
    gauge.name = absl::StrCat(std::string(Name(*dtype)), " arithmetic");
    gauge.calibrated_rate = gauge.peaks.flops_per_second[workload::Index(*dtype)];
    gauge.slice = [this, dtype = *dtype](double seconds) { return meter_.MeasureCompute(dtype, seconds); };
    return gauge;
  }
  const std::optional<double> seconds = workload::MemorySeconds(cost, gauge.peaks);
  if (!seconds) return gauge;
  gauge.calibrated_rate = cost.Bytes() / *seconds;
  gauge.slice = [this, mix = RoofMeter::MixOf(cost), working_set](double slice_seconds) {
    return working_set > 0 ? meter_.MeasureCache(mix, working_set, slice_seconds)
                           : meter_.MeasureMemory(mix, slice_seconds);
  };
  return gauge;
}

const hardware::StreamVariant& CpuDevice::BestStream(hardware::StreamKind kind) const {
  return meter_.BestStream(kind);
}

double RoofGauge::SecondsAt(const workload::Cost& cost, double rate) const {
  if (calibrated_rate <= 0) return 0;
  const double factor = rate / calibrated_rate;
  const workload::Peaks now = bound == Bound::kMemory ? peaks.ScaledMemory(factor) : peaks.ScaledCompute(factor);
  return workload::RoofSeconds(cost, now).value_or(0);
}

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const std::string& spec, int threads) {
  if (spec == "auto" || spec == "cpu") return std::make_unique<CpuDevice>(threads);
  return absl::InvalidArgumentError(absl::StrCat("--device=", spec, ": this build knows the devices auto and cpu"));
}

}  // namespace roofbench
