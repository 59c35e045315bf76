// SPDX-License-Identifier: Apache-2.0
#include "lib/device/cpu_device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/device/gemm_probes.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/compute_loops.h"
#include "lib/hardware/thread_places.h"

namespace roofbench {
namespace {

using workload::Dtype;

int SetThreads(int threads) {
  if (threads > 0) at::set_num_threads(threads);
  return at::get_num_threads();
}

// The shortest of three runs.
double SecondsOf(const hardware::ComputeLoop& loop, int64_t iterations) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double start = hardware::WallSeconds();
    [[maybe_unused]] volatile double sink = loop.run(iterations);
    best = std::min(best, hardware::WallSeconds() - start);
  }
  return best;
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : MeteredDevice(hardware::CpuRoofMeter::kCalibrationSeconds),
      threads_(SetThreads(threads)),
      facts_(hardware::ReadCpuFacts("/", hardware::FindThreadPlaces(threads_).Processors())),
      meter_(std::make_unique<hardware::CpuRoofMeter>(facts_, threads_)),
      evictor_(facts_.LastLevelCacheBytes(), threads_) {}

absl::Status CpuDevice::Supports(Dtype dtype) const {
  if (dtype == Dtype::kTf32) return absl::UnimplementedError("tf32 is a CUDA precision");
  // Not in hardware, but LibTorch's products in fp8 are near those in fp32.
  if (dtype == Dtype::kFp8 || facts_.Supports(dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("this processor has no ", std::string(Name(dtype)),
                                               " arithmetic, so the case would take hundreds of times its roof; "
                                               "--slow_precisions runs it"));
}

std::vector<std::pair<std::string, hardware::ComputeProbe>> CpuDevice::GemmProbes(Dtype dtype) const {
  return CpuGemmProbes(dtype);
}

std::function<void()> CpuDevice::ExtraWork(double seconds) {
  // Timing the loop once sets its length, so that the amount of work and not a clock decides when it ends.
  constexpr int64_t kTrial = 100'000;
  const hardware::ComputeLoop& loop = hardware::ComputeLoops().front();
  const double per_iteration = SecondsOf(loop, kTrial) / kTrial;
  const int64_t iterations = std::max<int64_t>(1, std::llround(seconds / per_iteration));
  return [&loop, iterations] { [[maybe_unused]] volatile double sink = loop.run(iterations); };
}

void CpuDevice::RunStream(const hardware::StreamWay& way, std::byte* to, const std::byte* from, std::size_t bytes) {
  const bool reads = way.kind == hardware::StreamKind::kRead;
  const hardware::StreamVariant& variant =
      way.variant.empty() ? meter_->BestStream(way.kind) : *hardware::FindStream(way.kind, way.variant);
  const uint64_t sum =
      hardware::RunStream(variant, reads ? nullptr : to, from, bytes, way.threads > 0 ? way.threads : threads_);
  if (reads) std::memcpy(to, &sum, sizeof(sum));
}

}  // namespace roofbench
