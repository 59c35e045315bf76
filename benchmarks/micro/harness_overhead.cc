// SPDX-License-Identifier: Apache-2.0
// The overhead of the harness alone: the time that the sampler adds to an empty step.

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "lib/suite/family_of.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

constexpr int64_t kSamples = 10'000;

struct Overhead {
  std::unique_ptr<timing::Clock> clock;  // separate, because the case's clock is in use
  at::Tensor y;                          // number of samples; on the host, whatever the device
  std::vector<double> seconds;           // overhead per sample, one entry per step
};

// Runs the sampler over an empty step. The overhead is the time per sample, less the two clock reads that every sample
// needs.
void RunSampler(Overhead& o) {
  timing::SampleOptions options;
  options.warmup_iters = 1;
  options.min_samples = options.max_samples = kSamples;
  options.exact_samples = true;
  options.floor_multiple = 0;  // one step per sample, however short
  const double start = o.clock->HostSeconds();
  const timing::Samples samples = timing::TakeSamples(
      *o.clock, [](timing::PhaseMarker&) {}, 0, nullptr, options);
  const double seconds = (o.clock->HostSeconds() - start) / static_cast<double>(kSamples);
  o.seconds.push_back(std::max(0.0, seconds - 2 * o.clock->FloorSeconds()));
  *o.y.data_ptr<int64_t>() = static_cast<int64_t>(samples.seconds.size());
}

const Registration kHarnessOverhead =
    FamilyOf<Overhead>("harness_overhead", "10,000 samples of an empty step: what one costs the sampler is overhead_ns")
        .Choice("what", {"sampler"})
        .DefaultCache(kWarm)
        .Work([](const Point&) { return workload::Cost{}; })
        .Operands([](const Point&, Inputs& in) {
          return Overhead{in.device().NewClock(), at::scalar_tensor(0, at::kLong), {}};
        })
        .Reference([](const Overhead&) { return at::scalar_tensor(kSamples, at::kLong); })
        .Within([](const Point&) { return Tolerance{.dtype = workload::Dtype::kInt8}; })
        .Impl("sampler", RunSampler)
        .Details([](const Point&, const std::shared_ptr<Overhead>& o, Case& built) {
          built.figures = {{"overhead_ns", [o] { return timing::Median(o->seconds) * 1e9; }}};
        })
        .Points(Suite::kQuick, {{"what", {"sampler"}}});

}  // namespace
}  // namespace roofbench
