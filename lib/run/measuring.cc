// SPDX-License-Identifier: Apache-2.0
#include "lib/run/measuring.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/device/conditions/conditions_watch.h"
#include "lib/device/conditions/energy_clock.h"
#include "lib/observe/ranges.h"
#include "lib/ranks/link_meter.h"
#include "lib/results/counters.h"
#include "lib/run/slowest_clock.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// Number of times that a case slowed down by heat is measured again.
constexpr int kThermalRetries = 2;

// A cold case above this share of its roof has a wrong probe or a wrong cost. Where the memory speed changes within
// minutes, two of sixty runs of the stream itself reached 1.08 and 1.12 (two-core EPYC, 2026-11-20), without any error.
constexpr double kImpossibleRoof = 1.25;
// The same for a warm case: the rates of caches are upper bounds, but they scatter more.
constexpr double kImpossibleCacheRoof = 2;

// Margin for noise between the chunks of the case and of the probes; larger ratios are not shares of a roof.
constexpr double kMostShare = 1.05;

constexpr double kMilliseconds = 1e3;

// Rotates over the copies, which must outlive it.
timing::Step RotatingStep(const std::vector<Case>& copies) {
  return [&copies, next = std::size_t{0}, number = int64_t{0}](timing::PhaseMarker& marker) mutable {
    const observe::Range range(observe::kStepRange, ++number);
    copies[next].step(marker);
    if (++next == copies.size()) next = 0;
  };
}

// Precedes the step with device work that takes `share` of the step's time, if `share` is positive.
timing::Step Delayed(timing::Step step, double share, Device& device, timing::Clock& clock, std::size_t phases) {
  if (share <= 0) return step;
  return [delay = device.ExtraWork(share * timing::Median(QuickSamples(clock, step, phases).seconds)),
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
                                 Device& device, SlowestClock* slowest) {
  const Case& one = built.first();
  timing::SampleOptions sampling = options.sampling;
  if (!built.operands.empty()) {
    // Takes steps by this rank's clock, of which others might take more or less.
    const double modified = slowest == nullptr ? ModifiedBytes(built, cost, device) : 0;
    sampling.before_step = [&built, evictor = device.evictor(), modified] {
      evictor->EvictAndRefill(built.operands, modified);
    };
  }
  if (one.prepare || slowest != nullptr) {
    sampling.before_sample = [&built, slowest] {
      for (const Case& copy : built.copies) {
        if (copy.prepare) copy.prepare();
      }
      if (slowest != nullptr) slowest->BeginSample();
    };
  }
  sampling.least_samples = one.least_samples;
  // For steps that take seconds, the checked step has warmed up everything except the caches.
  if (!sampling.warmup_iters && sampling.least_samples > 1) sampling.warmup_iters = 1;
  if (one.warmup_iters) sampling.warmup_iters = one.warmup_iters;
  return sampling;
}

// Runs the step for at least `seconds`, as `sampling` would, and returns what that says of its first steps.
timing::Samples WarmUpFor(double seconds, const timing::Step& step, timing::SampleOptions sampling, std::size_t phases,
                          timing::Clock& clock, const std::function<bool()>& interrupted) {
  sampling.warmup_iters = 0;
  sampling.min_samples = sampling.least_samples = 1;
  sampling.max_samples = int64_t{1} << 40;  // never
  sampling.exact_samples = false;
  sampling.max_time = sampling.max_wall = seconds;
  sampling.target_ci = -1;
  sampling.interrupted = interrupted;
  return timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, sampling);
}

timing::Clock& ClockOf(Device& device, SlowestClock* slowest) {
  return slowest == nullptr ? device.clock() : static_cast<timing::Clock&>(*slowest);
}

std::function<double()> OtherCpuOf(const RankTeam* team) {
  if (team == nullptr) return {};
  return [team] { return team->OtherCpuSeconds(); };
}

void SampleUnthrottled(const timing::Step& step, const timing::RoofProbe& probe, timing::SampleOptions sampling,
                       Device& device, const JoulesRead& joules, const std::function<bool()>& interrupted,
                       SlowestClock* slowest, RankTeam* team, Outcome& outcome) {
  const auto ends = [&] { return interrupted && interrupted(); };
  for (int attempt = 0;; ++attempt) {
    ConditionsWatch watch(device, OtherCpuOf(team));
    sampling.interrupted = [&] {
      watch.Poll();
      return ends();
    };
    std::optional<observe::Range> range;
    range.emplace("warm-up");
    // A GPU's counter moves every tenth of a second, in which chunks and the probes between them alternate.
    static const JoulesRead kNone;
    const bool is_fine = device.SharesHostMemory();
    const bool is_probed = probe && sampling.roof_share > 0;
    EnergyClock clock(ClockOf(device, slowest), is_fine || !is_probed ? joules : kNone, is_fine ? 0.02 : 2);
    sampling.warmed_up = [&range, &clock, slowest] {
      range.reset();
      range.emplace("measure");
      clock.Restart();
      if (slowest != nullptr) slowest->Restart();
    };
    outcome.samples = timing::TakeSamples(clock, step, static_cast<int>(outcome.phases.size()), probe, sampling);
    range.reset();
    outcome.conditions = watch.Finish();
    if (const std::optional<double> watts = clock.Watts()) {
      outcome.joules_per_step = *watts * timing::Median(outcome.samples.seconds);
    }
    const bool throttled = outcome.conditions.throttled;
    const bool again = team == nullptr ? throttled : team->Any(throttled);
    if (!again || attempt == kThermalRetries || ends()) return;
    device.WaitUntilCool();
  }
}

// Ratios of the chunks whose times are both known; 0 seconds means unknown.
std::vector<double> Ratios(std::span<const timing::Chunk> chunks,
                           const std::function<double(const timing::Chunk&)>& allowed_seconds) {
  std::vector<double> ratios;
  for (const timing::Chunk& chunk : chunks) {
    const double allowed = allowed_seconds(chunk);
    if (allowed > 0 && chunk.median_seconds > 0) ratios.push_back(allowed / chunk.median_seconds);
  }
  return ratios;
}

// Time of the work at the roof probed with a chunk, over its time in that chunk; chunks without a rate are left out.
std::vector<double> RatiosTo(const RoofGauge& gauge, const workload::Cost& cost,
                             std::span<const timing::Chunk> chunks) {
  return Ratios(chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? gauge.SecondsAt(cost, chunk.roof_rate) : 0;
  });
}

// The median of the ratios for the operations of each phase; 0: the cost names none, or the ratio is too large to be a
// share.
std::vector<double> PhaseRoofs(const RoofGauge& gauge, const Outcome& outcome) {
  std::vector<double> roofs(outcome.phases.size());
  for (std::size_t phase = 0; phase < roofs.size(); ++phase) {
    const workload::Cost cost = outcome.cost.OfComponent(outcome.phases[phase]);
    if (cost.operations.empty()) continue;
    const std::span<const double> seconds = outcome.samples.phase_seconds[phase];
    std::vector<timing::Chunk> chunks = outcome.samples.chunks;
    for (timing::Chunk& chunk : chunks) {
      chunk.median_seconds = timing::Median(
          seconds.subspan(static_cast<std::size_t>(chunk.first_sample), static_cast<std::size_t>(chunk.samples)));
    }
    const std::vector<double> ratios = RatiosTo(gauge, cost, chunks);
    const double share = ratios.empty() ? 0 : timing::Median(ratios);
    if (share <= kMostShare) roofs[phase] = share;
  }
  return roofs;
}

// The roof of what ranks have to send, as long messages after each other: the rate of the case's bytes. Without a probe
// where they compute as well: one on a single rank would measure the others' waiting.
RoofGauge LinkGauge(const workload::Cost& cost, ranks::Group& group) {
  RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kLink, .name = "link"};
  if (cost.link_messages <= 0 || !cost.operations.empty()) return gauge;
  gauge.peaks.link = gauge.calibrated_rate = 1;
  const auto meter =
      std::make_shared<ranks::LinkMeter>(group, static_cast<int64_t>(cost.bus_bytes / cost.link_messages));
  gauge.probe = [meter, bytes = cost.bus_bytes, messages = cost.link_messages](double seconds) {
    const double allowed = meter->Measure(seconds).Seconds(messages, bytes);
    return allowed > 0 ? bytes / allowed : 0;
  };
  return gauge;
}

enum class RoofVerdict {
  kPlausible,
  // The case ran above the roof probed with it, but not above the highest rate read in this run: other programs
  // disturbed the probe, or its memory is slower.
  kDisturbed,
  // Nearly every chunk ran far above the highest rate, so the cost or the probe must be wrong.
  kImpossible,
};

RoofVerdict JudgeRoof(const RoofGauge& gauge, CacheState cache, const Outcome& outcome) {
  const std::vector<double>& ratios = outcome.roof_ratios;
  if (ratios.empty() || timing::Median(ratios) <= kMostShare) return RoofVerdict::kPlausible;
  // A busy machine disturbs single probes; that is noise, not a wrong cost.
  constexpr std::size_t kFewestChunks = 4;
  const double impossible = cache == CacheState::kWarm ? kImpossibleCacheRoof : kImpossibleRoof;
  if (ratios.size() < kFewestChunks || timing::Quantile(ratios, 0.1) <= impossible) return RoofVerdict::kDisturbed;
  double highest = gauge.calibrated_rate;
  for (const timing::Chunk& chunk : outcome.samples.chunks) highest = std::max(highest, chunk.roof_rate);
  const double share = gauge.SecondsAt(outcome.cost, highest) / outcome.summary.median;
  return share > impossible ? RoofVerdict::kImpossible : RoofVerdict::kDisturbed;
}

}  // namespace

absl::Status SampleCase(const BuiltCase& built, CacheState cache, const RunOptions& options, Device& device,
                        const std::function<bool()>& interrupted, Outcome& outcome, RankTeam* team) {
  const Case& first = built.first();
  outcome.phases = first.phases;
  std::optional<SlowestClock> ranks_clock;
  if (team != nullptr) ranks_clock.emplace(device.clock(), *team->group(), interrupted, OtherCpuOf(team));
  SlowestClock* const slowest = ranks_clock ? &*ranks_clock : nullptr;
  timing::Clock& clock = ClockOf(device, slowest);
  const std::function<bool()> ends = slowest == nullptr ? interrupted : [slowest] { return slowest->interrupted(); };
  const RoofGauge gauge = team == nullptr ? device.Gauge(outcome.cost, cache) : LinkGauge(outcome.cost, *team->group());
  outcome.roof_name = gauge.name;
  const at::AutoGradMode grad(first.autograd);
  const observe::Range range(outcome.name.c_str());
  const timing::Step step =
      Delayed(RotatingStep(built.copies), options.injected_delay, device, clock, outcome.phases.size());
  const timing::SampleOptions sampling = SamplingOf(built, outcome.cost, options, device, slowest);
  std::optional<timing::Samples> before;
  if (options.min_warmup_time > 0 && !first.warmup_iters) {
    before = WarmUpFor(options.min_warmup_time, step, sampling, outcome.phases.size(), clock, ends);
  }
  SampleUnthrottled(step, gauge.probe, sampling, device, options.joules, ends, slowest, team, outcome);
  if (slowest != nullptr) {
    outcome.figures.emplace_back("rank_skew_ms", kMilliseconds * slowest->SkewSeconds());
    outcome.figures.emplace_back("last_rank", slowest->LastRank());
  }
  if (before) {
    outcome.samples.first_step_seconds = before->first_step_seconds;
    outcome.samples.warmup_steps += static_cast<int64_t>(before->seconds.size()) * before->steps_per_sample;
  }
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.model = first.model;
  outcome.noise = NoiseOf(outcome);
  outcome.roof_ratios = RatiosTo(gauge, outcome.cost, outcome.samples.chunks);
  outcome.phase_roofs = PhaseRoofs(gauge, outcome);
  outcome.model_ratios = ModelRatios(gauge, outcome);
  const RoofVerdict verdict = JudgeRoof(gauge, cache, outcome);
  if (verdict == RoofVerdict::kPlausible) return absl::OkStatus();
  const double share = timing::Median(outcome.roof_ratios);
  outcome.disturbed = true;
  // With other programs running, and between ranks, this does not prove an error.
  if (verdict == RoofVerdict::kDisturbed || !outcome.noise.empty() || team != nullptr) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the case ran at ", share, " of the measured ", outcome.roof_name,
                                          " roof, which cannot be: its cost or the probe is wrong"));
}

std::vector<double> ModelRatios(const RoofGauge& gauge, const Outcome& outcome) {
  // For any other bound, the probe does not measure the peak of the case's arithmetic.
  if (gauge.bound != workload::Bound::kCompute) return {};
  return Ratios(outcome.samples.chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? outcome.model.flops / chunk.roof_rate : 0;
  });
}

timing::Samples QuickSamples(timing::Clock& clock, const timing::Step& step, std::size_t phases) {
  timing::SampleOptions few;
  few.warmup_iters = 1;
  few.min_samples = 3;
  few.max_samples = 20;
  few.max_time = 0.02;
  few.max_warmup_time = 0.01;
  few.max_wall = 1;
  return timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, few);
}

}  // namespace roofbench
