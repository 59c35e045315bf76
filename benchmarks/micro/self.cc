// The harness measured by itself: what the sampler adds to a step that does nothing.

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <memory>

#include "lib/harness/device.h"
#include "lib/harness/family.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

constexpr int64_t kSamples = 10'000;

// One run of the sampler over an empty step, on a clock of its own: its time over the samples, less the two reads of
// the clock that a sample cannot do without, is the overhead.
absl::StatusOr<Case> Build(const Point&, Inputs& in) {
  const at::Tensor taken = at::scalar_tensor(0, at::kLong);  // on the host, whatever the device
  const auto overheads = std::make_shared<std::vector<double>>();
  const auto clock = std::shared_ptr<timing::Clock>(in.device().NewClock());
  timing::SampleOptions options;
  options.warmup_iters = 1;
  options.min_samples = options.max_samples = kSamples;
  options.exact_samples = true;
  options.floor_multiple = 0;  // a step a sample, however short
  return Case{.step =
                  [=] {
                    const double start = clock->HostSeconds();
                    const timing::Samples samples = timing::TakeSamples(
                        *clock, [](timing::PhaseMarker&) {}, 0, nullptr, options);
                    const double seconds = (clock->HostSeconds() - start) / static_cast<double>(kSamples);
                    overheads->push_back(std::max(0.0, seconds - 2 * clock->FloorSeconds()));
                    *taken.data_ptr<int64_t>() = static_cast<int64_t>(samples.seconds.size());
                  },
              .result = [=] { return std::vector{taken}; },
              .reference = [] { return std::vector{at::scalar_tensor(kSamples, at::kLong)}; },
              .tolerance = {.dtype = workload::Dtype::kInt8},
              .figures = {{"overhead_ns", [=] { return timing::Median(*overheads) * 1e9; }}}};
}

const Registration kSelf(Family("self", "the sampler over an empty step: its own cost is overhead_ns")
                             .Axis({.name = "what", .choices = {"sampler"}})
                             .DefaultCache("warm")
                             .Grid(Suite::kQuick, {{"what", {"sampler"}}})
                             .Cost([](const Point&) { return workload::Cost{}; })
                             .Build(Build));

}  // namespace
}  // namespace roofbench
