// SPDX-License-Identifier: Apache-2.0
#include "lib/results/evaluation.h"

#include <algorithm>
#include <functional>
#include <span>

#include "absl/strings/str_format.h"
#include "lib/hardware/pressure.h"
#include "lib/results/counters.h"
#include "lib/results/kept_roofs.h"
#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// A cold case above this share of its roof has a wrong probe or a wrong cost. Where the memory speed changes within
// minutes, two of sixty runs of the stream itself reached 1.08 and 1.12 (two-core EPYC, 2026-11-20), without any error.
constexpr double kImpossibleRoof = 1.25;
// The same for a warm case: the rates of caches are upper bounds, but they scatter more.
constexpr double kImpossibleCacheRoof = 2;
// Noise may explain what is above these limits, but not what is this much above them, over the share of the processors
// that other programs leave: with 4 and 12 busy loops on two cores, which slowed every probe, also those of the
// calibration, copies and products reached 3.3 to 4.7 of the highest rate (2026-11-26).
constexpr double kBeyondNoise = 4;
constexpr double kLeastFreeShare = 0.05;  // of the processors, while other programs run
// Seconds and probes of a second look at the roof: memory may have become faster since the last probe of the case.
constexpr double kSecondLookSeconds = 0.02;
constexpr int kSecondLooks = 8;
// Chunks whose ratios to the roof scatter this much (third over first quartile), or probes that are this much slower
// than the roof's calibration, give no share. For a link, the probes alone count: ranks that share processors change
// the time of a collective many times over (1 MiB over two: 0.24 to 1.3 ms while the links agree within a third,
// two-core EPYC, 2026-11-26), which its interval and `noisy` say.
constexpr double kMostScatter = 2;
constexpr double kSlowProbes = 3;

// Margin for noise between the chunks of the case and of the probes; larger ratios are not shares of a roof.
constexpr double kMostShare = 1.05;

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
std::vector<double> RatiosTo(const hardware::RoofGauge& gauge, const workload::Cost& cost,
                             std::span<const timing::Chunk> chunks) {
  return Ratios(chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? gauge.SecondsAt(cost, chunk.roof_rate) : 0;
  });
}

// The median of the ratios for the operations of each phase; 0: the cost names none, or the ratio is too large to be a
// share.
std::vector<double> PhaseRoofs(const hardware::RoofGauge& gauge, const Outcome& outcome) {
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

// Compares a case with the roof probed with it, and with the highest rate read in this run.
struct RoofJudgment {
  // The case ran above the roof probed with it, the probes disagree with each other or with the calibration, or other
  // programs took most of the processors: they disturbed the probes, or the probes' memory is slower.
  bool is_disturbed = false;
  // The case ran so far above the highest rate that its cost or the probe must be wrong.
  bool is_impossible = false;
  double share_of_highest = 0;
};

RoofJudgment JudgeRoof(const hardware::RoofGauge& gauge, hardware::CacheState cache, bool on_processors,
                       const Outcome& outcome) {
  const std::vector<double>& ratios = outcome.roof_ratios;
  if (ratios.empty()) return {};
  double highest = gauge.calibrated_rate;
  std::vector<double> rates;
  for (const timing::Chunk& chunk : outcome.samples.chunks) {
    if (chunk.roof_rate > 0) rates.push_back(chunk.roof_rate);
    highest = std::max(highest, chunk.roof_rate);
  }
  const bool is_link = gauge.bound == workload::Bound::kLink;
  const std::vector<double>& compared = is_link ? rates : ratios;
  double share = gauge.SecondsAt(outcome.cost, highest) / outcome.summary.median;
  const double limit = cache == hardware::CacheState::kWarm ? kImpossibleCacheRoof : kImpossibleRoof;
  // A busy machine disturbs single probes; that is noise, not a wrong cost.
  constexpr std::size_t kFewestChunks = 4;
  const bool is_clear =
      outcome.noise.empty() && ratios.size() >= kFewestChunks && timing::Quantile(ratios, 0.1) > limit;
  const double free_share = 1 - TakenShare(outcome.conditions);
  const double most = is_clear ? limit : limit * kBeyondNoise / std::max(kLeastFreeShare, free_share);
  // Between ranks, this does not prove an error.
  bool is_impossible = !is_link && share > most;
  for (int look = 0; is_impossible && gauge.probe && look < kSecondLooks; ++look) {
    highest = std::max(highest, gauge.probe(kSecondLookSeconds));
    share = gauge.SecondsAt(outcome.cost, highest) / outcome.summary.median;
    is_impossible = share > most;
  }
  // Where others take most of the processors, a probe reads what they left, and so may the calibration.
  return {.is_disturbed = (on_processors && 1 - free_share > hardware::kMostOthers) ||
                          timing::Median(ratios) > kMostShare ||
                          kSlowProbes * timing::Median(rates) < gauge.calibrated_rate ||
                          timing::Quantile(compared, 0.75) > kMostScatter * timing::Quantile(compared, 0.25),
          .is_impossible = is_impossible,
          .share_of_highest = share};
}

}  // namespace

bool NeedsRemeasurement(const Outcome& outcome) {
  if (TakenShare(outcome.conditions) > KeptRoofs::kQuietShare) return false;
  constexpr double kMostPlausibleShare = 1.03;
  return outcome.disturbed ||
         (!outcome.roof_ratios.empty() && timing::Median(outcome.roof_ratios) > kMostPlausibleShare);
}

bool CannotBeJudged(const Outcome& outcome) {
  return outcome.verdict == Verdict::kMeasured && TakenShare(outcome.conditions) > hardware::kMostOthers;
}

bool IsInDoubt(const Outcome& outcome) {
  return outcome.verdict == Verdict::kMeasured &&
         (outcome.disturbed || outcome.conditions.throttled || !outcome.noise.empty());
}

bool HasFewSamples(const Outcome& outcome) {
  return outcome.verdict == Verdict::kMeasured && outcome.summary.samples > 0 &&
         outcome.summary.samples < timing::kFewestForInterval;
}

std::vector<double> ModelRatios(const hardware::RoofGauge& gauge, const Outcome& outcome) {
  // For any other bound, the probe does not measure the peak of the case's arithmetic.
  if (gauge.bound != workload::Bound::kCompute) return {};
  return Ratios(outcome.samples.chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? outcome.model.flops / chunk.roof_rate : 0;
  });
}

absl::Status Evaluate(const hardware::RoofGauge& gauge, hardware::CacheState cache, bool on_processors,
                      Outcome& outcome) {
  outcome.roof_name = gauge.name;
  outcome.summary = timing::Summarize(outcome.samples.seconds);
  outcome.noise = NoiseOf(outcome);
  outcome.roof_ratios = RatiosTo(gauge, outcome.cost, outcome.samples.chunks);
  outcome.phase_roofs = PhaseRoofs(gauge, outcome);
  outcome.model_ratios = ModelRatios(gauge, outcome);
  const RoofJudgment judgment = JudgeRoof(gauge, cache, on_processors, outcome);
  outcome.disturbed = judgment.is_disturbed;
  if (!judgment.is_impossible) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("the case ran at %.3g times the highest rate of the %s roof in this run, which cannot be: its "
                      "cost or the probe is wrong, or it does not do its work",
                      judgment.share_of_highest, outcome.roof_name));
}

}  // namespace roofbench
