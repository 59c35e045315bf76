// SPDX-License-Identifier: Apache-2.0
#include "lib/run/measuring.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/conditions/conditions_watch.h"
#include "lib/device/conditions/energy_clock.h"
#include "lib/observe/ranges.h"
#include "lib/results/counters.h"
#include "lib/results/noise.h"
#include "lib/run/roof_ratios.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// Number of times that a case slowed down by heat is measured again.
constexpr int kThermalRetries = 2;

// Rotates over the copies, which must outlive it.
timing::Step RotatingStep(const std::vector<Case>& copies) {
  return [&copies, next = std::size_t{0}, number = int64_t{0}](timing::PhaseMarker& marker) mutable {
    const observe::Range range(observe::kStepRange, ++number);
    copies[next].step(marker);
    if (++next == copies.size()) next = 0;
  };
}

// Precedes the step with device work that takes `share` of the step's time, if `share` is positive.
timing::Step Delayed(timing::Step step, double share, Device& device, std::size_t phases) {
  if (share <= 0) return step;
  return [delay = device.ExtraWork(share * QuickSamples(device, step, phases).median),
          step = std::move(step)](timing::PhaseMarker& marker) {
    delay();
    step(marker);
  };
}

// Bytes of modified cache lines that a step leaves: all that it writes, or none if it bypasses the caches. Ignored in
// steps longer than kLongStep.
double ModifiedBytes(const BuiltCase& built, const workload::Cost& cost, Device& device) {
  constexpr int kTrials = 5;
  constexpr double kLongStep = 0.1;  // seconds
  constexpr double kNegligible = 0.1;
  double written = 0;
  for (const workload::Operation& operation : cost.operations) {
    written += operation.repeat * (operation.bytes_written + operation.bytes_updated);
  }
  const double most = std::min(written, device.LastLevelCacheBytes());
  if (most <= 0) return 0;
  timing::IgnoredPhases ignored;
  std::vector<double> bytes;
  for (int trial = 0; trial < kTrials; ++trial) {
    device.evictor()->Evict(built.operands);
    const double begin = device.clock().HostSeconds();
    built.first().step(ignored);
    if (device.clock().HostSeconds() - begin > kLongStep) return 0;
    bytes.push_back(device.evictor()->EvictAndEstimateModified(built.operands));
  }
  const double modified = std::min(timing::Median(bytes), most);
  return modified > kNegligible * most ? modified : 0;
}

timing::SampleOptions SamplingOf(const BuiltCase& built, const workload::Cost& cost, const RunOptions& options,
                                 Device& device) {
  const Case& one = built.first();
  timing::SampleOptions sampling = options.sampling;
  if (!built.operands.empty()) {
    sampling.before_step = [&built, evictor = device.evictor(), modified = ModifiedBytes(built, cost, device)] {
      evictor->Evict(built.operands);
      evictor->FillWithModifiedLines(modified);
    };
  }
  sampling.least_samples = one.least_samples;
  // For steps that take seconds, the checked step has warmed up everything except the caches.
  if (!sampling.warmup_iters && sampling.least_samples > 1) sampling.warmup_iters = 1;
  if (one.warmup_iters) sampling.warmup_iters = one.warmup_iters;
  return sampling;
}

void SampleUnthrottled(const timing::Step& step, const timing::RoofProbe& probe, timing::SampleOptions sampling,
                       Device& device, const JoulesRead& joules, const std::function<bool()>& interrupted,
                       Outcome& outcome) {
  const auto ends = [&] { return interrupted && interrupted(); };
  for (int attempt = 0;; ++attempt) {
    ConditionsWatch watch(device);
    sampling.interrupted = [&] {
      watch.Poll();
      return ends();
    };
    std::optional<observe::Range> range;
    range.emplace("warm-up");
    EnergyClock clock(device.clock(), joules);
    sampling.warmed_up = [&range, &clock] {
      range.reset();
      range.emplace("measure");
      clock.Restart();
    };
    outcome.samples = timing::TakeSamples(clock, step, static_cast<int>(outcome.phases.size()), probe, sampling);
    range.reset();
    outcome.conditions = watch.Finish();
    if (const std::optional<double> watts = clock.Watts()) {
      outcome.joules_per_step = *watts * timing::Median(outcome.samples.seconds);
    }
    if (!outcome.conditions.throttled || attempt == kThermalRetries || ends()) return;
    device.WaitUntilCool();
  }
}

}  // namespace

absl::Status SampleCase(const BuiltCase& built, CacheState cache, const RunOptions& options, Device& device,
                        const std::function<bool()>& interrupted, Outcome& outcome) {
  const Case& first = built.first();
  outcome.phases = first.phases;
  const RoofGauge gauge = device.Gauge(outcome.cost, cache);
  outcome.roof_name = gauge.name;
  const at::AutoGradMode grad(first.autograd);
  const observe::Range range(outcome.name.c_str());
  const timing::Step step = Delayed(RotatingStep(built.copies), options.injected_delay, device, outcome.phases.size());
  SampleUnthrottled(step, gauge.probe, SamplingOf(built, outcome.cost, options, device), device, options.joules,
                    interrupted, outcome);
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.model = first.model;
  outcome.roof_ratios = RoofRatios(gauge, outcome);
  outcome.phase_roofs = PhaseRoofs(gauge, outcome);
  outcome.model_ratios = ModelRatios(gauge, outcome);
  const RoofVerdict verdict = JudgeRoof(gauge, outcome);
  if (verdict == RoofVerdict::kPlausible) return absl::OkStatus();
  const double share = timing::Median(outcome.roof_ratios);
  outcome.disturbed = true;
  // With other programs running, and in caches, whose rates are upper bounds, this does not prove an error.
  if (verdict == RoofVerdict::kDisturbed || cache == CacheState::kWarm || IsNoisy(outcome)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the case ran at ", share, " of the measured ", outcome.roof_name,
                                          " roof, which cannot be: its cost or the probe is wrong"));
}

timing::Summary QuickSamples(Device& device, const timing::Step& step, std::size_t phases) {
  timing::SampleOptions few;
  few.warmup_iters = 1;
  few.min_samples = 3;
  few.max_samples = 20;
  few.max_time = 0.02;
  few.max_warmup_time = 0.01;
  few.max_wall = 1;
  return timing::Summarize(timing::TakeSamples(device.clock(), step, static_cast<int>(phases), nullptr, few).seconds);
}

}  // namespace roofbench
