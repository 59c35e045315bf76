// SPDX-License-Identifier: Apache-2.0
#include "lib/run/measuring.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lib/aten/storage_type.h"
#include "lib/base/process.h"
#include "lib/device/conditions/energy_clock.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/observe/ranges.h"
#include "lib/ranks/link_meter.h"
#include "lib/results/evaluation.h"
#include "lib/run/slowest_clock.h"
#include "lib/run/spot_checks.h"
#include "lib/suite/check.h"
#include "lib/timing/clock_watch.h"
#include "lib/timing/sampler.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// Number of times that a case slowed down by heat is measured again.
constexpr int kThermalRetries = 2;

constexpr double kMilliseconds = 1e3;
// At least, of operands that are part of the result, which a case restores before a sample; and what it takes besides.
constexpr double kRestoredBytesPerSecond = 4e9;
constexpr double kRestoring = 20e-6;

// Steps over the copies of a case, one after the other.
class Rotation {
 public:
  // Both must outlive it.
  Rotation(const BuiltCase& built, Device& device)
      : built_(built), device_(device), since_displaced_(std::ssize(built.copies)) {}

  void Step(timing::PhaseMarker& marker) {
    const observe::Range range(observe::kStepRange, ++number_);
    const Case& copy = built_.copies[next_];
    if (checks_ != nullptr) checks_->BeforeStep(copy);
    copy.step(marker);
    if (++next_ == built_.copies.size()) next_ = 0;
    ++since_displaced_;
  }

  // From now on, of each step.
  void Watch(SpotChecks& checks) { checks_ = &checks; }

  // The copy of the next step; nullptr if it has run none yet, and may have no result.
  const Case* Next() const {
    return next_ == 0 || number_ >= std::ssize(built_.copies) ? &built_.copies[next_] : nullptr;
  }

  // Prepares the copies, and makes the operands of the next steps cold; once in a round, so that the others keep the
  // pace of the host.
  void PrepareFor(int64_t steps) {
    if (built_.first().prepare) {
      const double begin = hardware::WallSeconds();
      for (const Case& copy : built_.copies) copy.prepare();
      prepared_.push_back((hardware::WallSeconds() - begin) / static_cast<double>(built_.copies.size()));
    }
    if (!built_.displaces || since_displaced_ + steps <= std::ssize(built_.copies)) return;
    device_.DisplaceCache().IgnoreError();  // it could when the case was built
    since_displaced_ = 0;
  }

  // What a copy's preparation takes; 0 where it is as short as restoring what is in its result.
  double UntimedSeconds() const {
    if (prepared_.empty()) return 0;
    const double seconds = timing::Median(prepared_);
    const double restoring = kRestoring + BytesOf(WholeResult(built_.first())) / kRestoredBytesPerSecond;
    return seconds > restoring ? seconds : 0;
  }

 private:
  const BuiltCase& built_;
  Device& device_;
  std::vector<double> prepared_;  // seconds
  SpotChecks* checks_ = nullptr;
  std::size_t next_ = 0;
  int64_t number_ = 0;
  int64_t since_displaced_;  // steps
};

timing::Step Unmarked(timing::Step step) {
  return [step = std::move(step)](timing::PhaseMarker& marker) {
    timing::IgnoredPhases ignored(marker.Measurement());
    step(ignored);
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

// Bytes of modified cache lines that a step leaves: all that it writes, or none if it bypasses the caches.
double ModifiedBytes(const BuiltCase& built, const workload::Cost& cost, Device& device) {
  timing::IgnoredPhases ignored;
  return device.evictor()->ModifiedBytesOf([&] { built.first().step(ignored); }, [&] { return built.operands; },
                                           cost.BytesWritten() + cost.BytesUpdated(), device.clock());
}

timing::SampleOptions SamplingOf(const BuiltCase& built, const workload::Cost& cost, const RunOptions& options,
                                 Device& device, SlowestClock* slowest, Rotation& rotation) {
  const Case& one = built.first();
  timing::SampleOptions sampling = options.sampling;
  if (!built.operands.empty()) {
    // Takes steps by this rank's clock, of which others might take more or less.
    const double modified = slowest == nullptr ? ModifiedBytes(built, cost, device) : 0;
    sampling.before_step = [&built, evictor = device.evictor(), modified] {
      evictor->EvictAndRefill(built.operands, modified);
    };
  }
  if (one.prepare || slowest != nullptr || built.displaces) {
    sampling.before_sample = [slowest, &rotation](int64_t steps) {
      rotation.PrepareFor(steps);
      if (slowest != nullptr) slowest->BeginSample();
    };
  }
  if (built.displaces) sampling.most_steps_per_sample = std::ssize(built.copies);
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

// The phases of a few steps.
std::vector<std::vector<double>> PhasesBeside(const timing::Step& step, timing::SampleOptions sampling,
                                              std::size_t phases, timing::Clock& clock,
                                              const std::function<bool()>& interrupted) {
  sampling.warmup_iters = 1;
  sampling.min_samples = sampling.least_samples = 3;
  sampling.max_samples = 20;
  sampling.exact_samples = false;
  sampling.interrupted = interrupted;
  return timing::TakeSamples(clock, step, static_cast<int>(phases), nullptr, sampling).phase_seconds;
}

timing::Clock& ClockOf(Device& device, SlowestClock* slowest) {
  return slowest == nullptr ? device.clock() : static_cast<timing::Clock&>(*slowest);
}

std::function<double()> OtherCpuOf(const RankTeam* team) {
  if (team == nullptr) return {};
  return [team] { return team->OtherCpuSeconds(); };
}

// Whether it is so here, or on another rank of `team`, which may be null.
bool OnAnyRank(const RankTeam* team, bool here) { return team == nullptr ? here : team->Any(here); }

void SampleUnthrottled(const timing::Step& step, const timing::RoofProbe& probe, timing::SampleOptions sampling,
                       Device& device, const JoulesRead& joules, const std::function<bool()>& interrupted,
                       SlowestClock* slowest, RankTeam* team, SpotChecks* checks, Outcome& outcome) {
  sampling.watches_device = true;
  static int64_t measurements = 0;
  const auto is_wrong = [&] { return checks != nullptr && !checks->status().ok(); };
  const auto ends = [&] { return is_wrong() || (interrupted && interrupted()); };
  for (int attempt = 0;; ++attempt) {
    sampling.measurement = ++measurements;
    hardware::ConditionsWatch watch = WatchConditions(device, OtherCpuOf(team));
    sampling.interrupted = [&] {
      watch.Poll();
      if (checks != nullptr && !is_wrong()) checks->Look(outcome.samples);
      return ends();
    };
    std::optional<observe::Range> range;
    range.emplace("warm-up");
    // A GPU updates its counter every tenth of a second. In that time both chunks and probes run.
    static const JoulesRead kNone;
    const bool is_fine = device.SharesHostMemory();
    const bool is_probed = probe && sampling.roof_share > 0;
    EnergyClock clock(ClockOf(device, slowest), is_fine || !is_probed ? joules : kNone, is_fine ? 0.02 : 2);
    sampling.warmed_up = [&range, &clock, checks, slowest] {
      if (checks != nullptr) checks->Restart();
      range.reset();
      range.emplace("measure");
      clock.Restart();
      if (slowest != nullptr) slowest->Restart();
    };
    timing::TakeSamples(clock, step, static_cast<int>(outcome.phases.size()), probe, sampling, outcome.samples);
    range.reset();
    outcome.conditions = watch.Finish();
    if (const std::optional<double> watts = clock.Watts()) {
      outcome.joules_per_step = *watts * timing::Median(outcome.samples.seconds);
    }
    const bool throttled = outcome.conditions.throttled;
    if (!OnAnyRank(team, throttled) || attempt == kThermalRetries || ends()) return;
    device.WaitUntilCool();
  }
}

// What the samples say of a device that lags the host.
void AddFiguresOfDevice(const Case& first, Outcome& outcome) {
  const timing::Samples& samples = outcome.samples;
  std::vector<double> hertz;
  for (const timing::Chunk& chunk : samples.chunks) {
    if (chunk.device_hertz > 0) hertz.push_back(chunk.device_hertz);
  }
  if (!hertz.empty()) {
    outcome.conditions.clock_hertz = timing::Median(hertz);
    outcome.figures.emplace_back("repeated_chunks", static_cast<double>(samples.repeated_chunks));
  }
  constexpr const char* kKernels = "kernel_ms";
  const auto is_kernels = [](const auto& figure) { return figure.first == kKernels; };
  if (samples.kernel_seconds > 0 && std::ranges::none_of(first.figures, is_kernels)) {
    outcome.figures.emplace_back(kKernels, kMilliseconds * samples.kernel_seconds);
  }
}

double MedianOf(const std::vector<ranks::LinkSpeed>& links, double ranks::LinkSpeed::*member) {
  std::vector<double> values;
  for (const ranks::LinkSpeed& link : links) values.push_back(link.*member);
  return timing::Median(values);
}

// The roof of what ranks have to send, as long messages after each other: the rate of the case's bytes. Without a probe
// where they compute as well: one on a single rank would measure the others' waiting.
// `links` gets what each probe finds, and outlives the gauge.
hardware::RoofGauge LinkGauge(const workload::Cost& cost, const Device& device, ranks::Group& group,
                              std::vector<ranks::LinkSpeed>& links) {
  hardware::RoofGauge gauge{.peaks = {}, .bound = workload::Bound::kLink, .name = "link"};
  if (cost.link_messages <= 0 || !cost.operations.empty()) return gauge;
  gauge.peaks.link = gauge.calibrated_rate = 1;
  const auto meter = std::make_shared<ranks::LinkMeter>(
      group, static_cast<int64_t>(cost.bus_bytes / cost.link_messages), device.NewClock(), device.torch_device());
  gauge.probe = [meter, &links, bytes = cost.bus_bytes, messages = cost.link_messages](double seconds) {
    const ranks::LinkSpeed link = meter->Measure(seconds);
    if (link.beta > 0) links.push_back(link);
    const double allowed = link.Seconds(messages, bytes);
    return allowed > 0 ? bytes / allowed : 0;
  };
  return gauge;
}

}  // namespace

absl::Status SampleCase(const BuiltCase& built, CacheState cache, const RunOptions& options, Device& device,
                        const std::function<bool()>& interrupted, Outcome& outcome, RankTeam* team) {
  const timing::ClockWatch clock_watch;
  const Case& first = built.first();
  if (!first.marks_beside) outcome.phases = first.phases;
  std::optional<SlowestClock> ranks_clock;
  if (team != nullptr) ranks_clock.emplace(device.clock(), *team->group(), interrupted, OtherCpuOf(team));
  SlowestClock* const slowest = ranks_clock ? &*ranks_clock : nullptr;
  timing::Clock& clock = ClockOf(device, slowest);
  const std::function<bool()> ends = slowest == nullptr ? interrupted : [slowest] { return slowest->interrupted(); };
  std::vector<ranks::LinkSpeed> links;
  hardware::RoofGauge gauge;  // measures the caches of a warm case
  if (options.sampling.roof_share > 0) {
    gauge =
        team == nullptr ? device.Gauge(outcome.cost, cache) : LinkGauge(outcome.cost, device, *team->group(), links);
  }
  const at::AutoGradMode grad(first.autograd);
  const observe::Range range(outcome.name.c_str());
  Rotation rotation(built, device);
  const timing::Step marked = [&rotation](timing::PhaseMarker& marker) { rotation.Step(marker); };
  const timing::Step step = Delayed(first.marks_beside ? Unmarked(marked) : marked, options.injected_delay, device,
                                    clock, outcome.phases.size());
  timing::SampleOptions sampling = SamplingOf(built, outcome.cost, options, device, slowest, rotation);
  std::optional<timing::Samples> before;
  if (options.min_warmup_time > 0 && !first.warmup_iters) {
    before = WarmUpFor(options.min_warmup_time, step, sampling, outcome.phases.size(), clock, ends);
  }
  outcome.model = first.model;
  std::optional<double> first_step_seconds;
  if (before) first_step_seconds = before->first_step_seconds;
  // Ranks would have to change the same values.
  std::optional<SpotChecks> checks;
  if (options.check && first.changing && !first.warmup_iters && team == nullptr) {
    checks.emplace(built, [&rotation] { return rotation.Next(); });
    rotation.Watch(*checks);
  }
  absl::Status status;
  // What disturbs probes of a quiet machine has mostly gone when the case is measured once more. Its very first steps
  // cannot be.
  for (const bool is_last : {sampling.exact_samples || first.warmup_iters, true}) {
    links.clear();
    SampleUnthrottled(step, gauge.probe, sampling, device, options.joules, ends, slowest, team,
                      checks ? &*checks : nullptr, outcome);
    if (checks && !checks->status().ok()) return checks->status();
    if (!first_step_seconds) first_step_seconds = outcome.samples.first_step_seconds;
    status = Evaluate(gauge, cache, /*on_processors=*/device.gpu() == nullptr, outcome);
    const bool again = !is_last && !(ends && ends()) && NeedsRemeasurement(outcome);
    if (is_last || !OnAnyRank(team, again)) break;
  }
  if (checks && status.ok() && !(ends && ends())) {
    const observe::Range check("check");
    checks->Finish(clock, step, outcome.phases.size(), outcome.samples);
    if (checks->status().ok() && !checks->depends_on_values().empty()) {
      std::cerr << ProgramName() << ": " << outcome.name << ": " << checks->depends_on_values()
                << ": measured anew, with new values for each\n";
      outcome.figures.emplace_back("new_values", 1);
      sampling.before_step = [&checks, evict = sampling.before_step] {
        checks->Renew();
        if (evict) evict();
      };
      SampleUnthrottled(step, gauge.probe, sampling, device, options.joules, ends, slowest, team, /*checks=*/nullptr,
                        outcome);
      status = Evaluate(gauge, cache, /*on_processors=*/device.gpu() == nullptr, outcome);
    }
    if (!checks->status().ok()) return checks->status();
  }
  if (slowest != nullptr) {
    outcome.figures.emplace_back("rank_skew_ms", kMilliseconds * slowest->SkewSeconds());
    outcome.figures.emplace_back("last_rank", slowest->LastRank());
  }
  AddFiguresOfDevice(first, outcome);
  if (const double seconds = rotation.UntimedSeconds(); seconds > 0) {
    outcome.figures.emplace_back("untimed_ms", kMilliseconds * seconds);
  }
  if (!links.empty()) {
    outcome.figures.emplace_back("link_alpha_ms", kMilliseconds * MedianOf(links, &ranks::LinkSpeed::alpha));
    outcome.figures.emplace_back("linkbw", MedianOf(links, &ranks::LinkSpeed::beta));
  }
  if (const std::string fault = clock_watch.Fault(); !fault.empty()) return absl::DataLossError(fault);
  outcome.samples.first_step_seconds = *first_step_seconds;
  if (before) {
    outcome.samples.warmup_steps += static_cast<int64_t>(before->seconds.size()) * before->steps_per_sample;
  }
  if (first.marks_beside) {
    outcome.phases = first.phases;
    outcome.samples.phase_seconds = PhasesBeside(marked, sampling, outcome.phases.size(), clock, ends);
  }
  return status;
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
