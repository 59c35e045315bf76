// SPDX-License-Identifier: Apache-2.0
#include "lib/run/roof_ratios.h"

#include <algorithm>
#include <functional>
#include <span>

#include "lib/timing/statistics.h"

namespace roofbench {
namespace {

// A cold case above this share of its roof has a wrong probe or a wrong cost. Where the memory speed changes within
// minutes, two of sixty runs of the stream itself reached 1.08 and 1.12 (two-core EPYC, 2026-11-20), without any error.
constexpr double kImpossibleRoof = 1.25;

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

std::vector<double> RatiosTo(const RoofGauge& gauge, const workload::Cost& cost,
                             std::span<const timing::Chunk> chunks) {
  return Ratios(chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? gauge.SecondsAt(cost, chunk.roof_rate) : 0;
  });
}

}  // namespace

std::vector<double> RoofRatios(const RoofGauge& gauge, const Outcome& outcome) {
  return RatiosTo(gauge, outcome.cost, outcome.samples.chunks);
}

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

std::vector<double> ModelRatios(const RoofGauge& gauge, const Outcome& outcome) {
  // For any other bound, the probe does not measure the peak of the case's arithmetic.
  if (gauge.bound != workload::Bound::kCompute) return {};
  return Ratios(outcome.samples.chunks, [&](const timing::Chunk& chunk) {
    return chunk.roof_rate > 0 ? outcome.model.flops / chunk.roof_rate : 0;
  });
}

RoofVerdict JudgeRoof(const RoofGauge& gauge, const Outcome& outcome) {
  const std::vector<double>& ratios = outcome.roof_ratios;
  if (ratios.empty() || timing::Median(ratios) <= kMostShare) return RoofVerdict::kPlausible;
  // A busy machine disturbs single probes; that is noise, not a wrong cost.
  constexpr std::size_t kFewestChunks = 4;
  if (ratios.size() < kFewestChunks || timing::Quantile(ratios, 0.1) <= kImpossibleRoof) return RoofVerdict::kDisturbed;
  double highest = gauge.calibrated_rate;
  for (const timing::Chunk& chunk : outcome.samples.chunks) highest = std::max(highest, chunk.roof_rate);
  const double share = gauge.SecondsAt(outcome.cost, highest) / outcome.summary.median;
  return share > kImpossibleRoof ? RoofVerdict::kImpossible : RoofVerdict::kDisturbed;
}

}  // namespace roofbench
