// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_meter.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "lib/hardware/roofs/bursts.h"
#include "lib/hardware/roofs/resting_threads.h"
#include "lib/timing/statistics.h"

namespace roofbench::hardware {
namespace {

using workload::Dtype;

constexpr double kNegligibleShare = 0.02;       // of a mix's traffic
constexpr double kUncalibratedSeconds = 0.009;  // for each variant, where a roof is used before a calibration

constexpr double kRecheckSeconds = 0.004;  // of a probe of a restored stream
constexpr int kRechecks = 3;               // probes, of which the median counts
constexpr double kRecheckMargin = 1.1;     // beyond the kept range

// A round may be as short as a burst, and a single round is unreliable, so a run begins with this many.
constexpr int kRounds = 9;
// A candidate has no more of them once it takes so many times its time, as a first call may, and reaches less than this
// part of the fastest one's rate: LibTorch's product of fp8 took 5 s, where loops take a millisecond (a Xeon with AMX,
// 2026-11-30).
constexpr double kSlow = 4;
constexpr double kFarBehind = 0.25;

// The maximum over the rounds would follow a single lucky one; a median would report the slow state of a shared
// machine, which lasts from milliseconds to minutes, whenever it covers half of the rounds.
constexpr double kReached = 0.75;  // quantile
constexpr double kEnd = 0.1;       // the quantiles of RateRange

// By Index(StreamKind).
StreamShares ByStream(const workload::Traffic& mix) { return {mix.read, mix.copy, mix.update, mix.write}; }

RoofNeeds Without(RoofNeeds needs, const RoofNeeds& other) {
  needs.streams &= ~other.streams;
  needs.dtypes &= ~other.dtypes;
  return needs;
}

// The roof with this name; empty for any other name.
RoofNeeds Named(std::string_view roof) {
  RoofNeeds named;
  for (const StreamKind kind : kStreamKinds) named.streams[Index(kind)] = roof == Name(kind);
  for (const Dtype dtype : workload::kDtypes) named.dtypes[workload::Index(dtype)] = roof == workload::Name(dtype);
  return named;
}

bool Has(const RoofNeeds& needs, std::string_view roof) {
  const RoofNeeds named = Named(roof);
  return (needs.streams & named.streams).any() || (needs.dtypes & named.dtypes).any();
}

}  // namespace

StreamShares SharesOf(const workload::Traffic& mix) {
  StreamShares shares = ByStream(mix);
  const double total = mix.read + mix.copy + mix.update + mix.write;
  double counted = 0;
  for (double& share : shares) {
    if (share < kNegligibleShare * total) share = 0;
    counted += share;
  }
  for (double& share : shares) share = counted > 0 ? share / counted : 0;
  return shares;
}

bool MovesNothing(const StreamShares& shares) { return shares == StreamShares{}; }

double& Rate(workload::Peaks& peaks, StreamKind kind) {
  return *std::array<double*, kStreamKinds.size()>{&peaks.read, &peaks.copy, &peaks.update, &peaks.write}[Index(kind)];
}

RoofNeeds& RoofNeeds::operator|=(const RoofNeeds& other) {
  streams |= other.streams;
  dtypes |= other.dtypes;
  return *this;
}

// Includes every stream that moves anything, however little: the time that a roof allows counts them all.
RoofNeeds NeedsOf(const workload::Cost& cost) {
  RoofNeeds needs;
  const StreamShares traffic = ByStream(workload::TrafficOf(cost));
  for (std::size_t i = 0; i < traffic.size(); ++i) needs.streams[i] = traffic[i] > 0;
  for (const Dtype dtype : workload::kDtypes) needs.dtypes[workload::Index(dtype)] = cost.Flops(dtype) > 0;
  return needs;
}

RoofNeeds NeedsOf(const std::vector<RoofReading>& readings) {
  RoofNeeds needs;
  for (const RoofReading& reading : readings) needs |= Named(reading.roof);
  return needs;
}

RoofNeeds StreamsAnd(std::initializer_list<Dtype> dtypes) {
  RoofNeeds needs;
  needs.streams.set();
  for (const Dtype dtype : dtypes) needs.dtypes.set(workload::Index(dtype));
  return needs;
}

void Compete(std::span<Candidate> candidates, double seconds_each) {
  std::vector<std::vector<double>> rates(candidates.size());
  std::vector<std::vector<double>> standings(candidates.size());
  std::vector<bool> is_out(candidates.size());
  std::vector<double> took(candidates.size());
  for (int round = 0; round < kRounds; ++round) {
    std::map<std::string_view, std::vector<double>> of_roof;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!is_out[i]) {
        const double begin = WallSeconds();
        rates[i].push_back(candidates[i].measure(seconds_each / kRounds));
        took[i] = WallSeconds() - begin;
      }
      // One that is out stays what the others stand against: without it, they would be no better than themselves.
      of_roof[candidates[i].roof].push_back(rates[i].back());
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::vector<double>& of_all = of_roof[candidates[i].roof];
      const double middle = timing::Median(of_all);
      is_out[i] =
          is_out[i] || (took[i] > kSlow * seconds_each && rates[i].back() < kFarBehind * std::ranges::max(of_all));
      standings[i].push_back(middle > 0 ? rates[i].back() / middle : rates[i].back());
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].rate = timing::Quantile(rates[i], kReached);
    candidates[i].range = {timing::Quantile(rates[i], kEnd), timing::Quantile(rates[i], 1 - kEnd)};
    candidates[i].standing = timing::Median(standings[i]);
  }
}

const Candidate* Winner(std::span<const Candidate> candidates, std::string_view roof) {
  const Candidate* winner = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.roof != roof || candidate.rate <= 0) continue;
    if (winner == nullptr || candidate.standing > winner->standing) winner = &candidate;
  }
  return winner;
}

void RoofMeter::AddComputeProbe(Dtype dtype, std::string name, ComputeProbe probe) {
  std::erase_if(probes_, [&](const NamedProbe& known) { return known.dtype == dtype && known.name == name; });
  probes_.push_back({dtype, std::move(name), std::move(probe)});
  known_.dtypes.reset(workload::Index(dtype));
}

std::vector<Candidate> RoofMeter::CandidatesFor(const RoofNeeds& needs) {
  std::vector<Candidate> candidates;
  for (const StreamKind kind : kStreamKinds) {
    if (needs.streams[Index(kind)]) std::ranges::move(StreamCandidates(kind), std::back_inserter(candidates));
  }
  for (const Dtype dtype : workload::kDtypes) {
    if (!needs.dtypes[workload::Index(dtype)]) continue;
    std::ranges::move(ComputeCandidates(dtype), std::back_inserter(candidates));
    for (const NamedProbe& named : probes_) {
      if (named.dtype != dtype) continue;
      candidates.push_back({.roof = std::string(workload::Name(dtype)), .variant = named.name, .measure = named.probe});
    }
  }
  return candidates;
}

void RoofMeter::Calibrate(const RoofNeeds& needs, double seconds_each) {
  RecheckRestored(needs);
  const RoofNeeds unknown = Without(needs, known_);
  std::vector<Candidate> candidates = CandidatesFor(unknown);
  if (!candidates.empty()) AwaitRest({[this] { return OthersRun(); }});
  auto first = candidates.begin();
  while (roof_by_roof_ && first != candidates.end() && Named(first->roof).streams.any()) {
    const auto last =
        std::find_if(first, candidates.end(), [&](const Candidate& next) { return next.roof != first->roof; });
    Compete(std::span(first, last), seconds_each);
    first = last;
  }
  Compete(std::span(first, candidates.end()), seconds_each);
  Take(unknown, candidates);
}

void RoofMeter::Restore(const std::vector<RoofReading>& readings) {
  const RoofNeeds wanted = Without(NeedsOf(readings), known_);
  std::vector<Candidate> candidates = CandidatesFor(wanted);
  RoofNeeds missing;  // where the best variant is, the rate of another one is not the roof
  for (const RoofReading& reading : readings) {
    const auto candidate = std::ranges::find_if(
        candidates, [&](const Candidate& one) { return one.roof == reading.roof && one.variant == reading.variant; });
    if (candidate != candidates.end()) {
      candidate->rate = reading.rate;
      candidate->range = reading.range;
      candidate->standing = reading.best ? 2 : 1;
    } else if (reading.best) {
      missing |= Named(reading.roof);
    }
  }
  std::erase_if(candidates, [&](const Candidate& candidate) { return Has(missing, candidate.roof); });
  const RoofNeeds restored = Without(wanted, missing);
  Take(restored, candidates);
  unchecked_.streams |= restored.streams;
}

void RoofMeter::RecheckRestored(const RoofNeeds& needs) {
  const RoofNeeds others = Without(unchecked_, needs);
  const RoofNeeds checked = Without(unchecked_, others);
  unchecked_ = others;
  RoofNeeds changed;
  for (const RoofReading& reading : readings_) {
    if (reading.best && Has(checked, reading.roof) && HasChanged(reading)) changed |= Named(reading.roof);
  }
  known_ = Without(known_, changed);
  std::erase_if(readings_, [&](const RoofReading& reading) { return Has(changed, reading.roof); });
}

bool RoofMeter::HasChanged(const RoofReading& best) {
  const RoofNeeds roof = Named(best.roof);
  StreamShares shares{};
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = roof.streams[i] ? 1 : 0;
  std::array<double, kRechecks> rates{};
  for (double& rate : rates) rate = MeasureStreams(shares, kRecheckSeconds).cpu;
  const double rate = timing::Median(rates);
  const double slow = best.range.slow > 0 ? best.range.slow : best.rate;
  const double fast = best.range.fast > 0 ? best.range.fast : best.rate;
  return rate < slow / kRecheckMargin || rate > fast * kRecheckMargin;
}

void RoofMeter::Take(const RoofNeeds& needs, const std::vector<Candidate>& candidates) {
  known_ |= needs;
  for (const StreamKind kind : kStreamKinds) {
    if (!needs.streams[Index(kind)]) continue;
    const Candidate* winner = Winner(candidates, Name(kind));
    Rate(peaks_, kind) = winner == nullptr ? 0 : winner->rate;
    if (winner == nullptr) continue;
    Choose(kind, *winner);
    if (kind == StreamKind::kRead) memory_speed_ = winner->range;
  }
  for (const Dtype dtype : workload::kDtypes) {
    const std::size_t index = workload::Index(dtype);
    if (!needs.dtypes[index]) continue;
    const Candidate* winner = Winner(candidates, workload::Name(dtype));
    compute_[index] = winner == nullptr ? nullptr : winner->measure;
    peaks_.flops_per_second[index] = winner == nullptr ? 0 : winner->rate;
  }
  for (const Candidate& candidate : candidates) {
    if (candidate.rate <= 0) continue;
    readings_.push_back({.roof = candidate.roof,
                         .variant = candidate.variant,
                         .rate = candidate.rate,
                         .best = &candidate == Winner(candidates, candidate.roof),
                         .range = candidate.range});
  }
}

double RoofMeter::MeasureMemory(const workload::Traffic& mix, double seconds) {
  const StreamShares shares = SharesOf(mix);
  if (MovesNothing(shares)) return 0;
  RoofNeeds needs;
  for (std::size_t i = 0; i < shares.size(); ++i) needs.streams[i] = shares[i] > 0;
  Calibrate(needs, kUncalibratedSeconds);
  return MeasureStreams(shares, seconds).wall;
}

double RoofMeter::MeasureCache(const workload::Traffic& mix, double working_set_bytes, double seconds) {
  const StreamShares shares = SharesOf(mix);
  if (working_set_bytes <= 0 || MovesNothing(shares)) return 0;
  return MeasureStreamsInCache(shares, working_set_bytes, seconds);
}

double RoofMeter::MeasureCompute(Dtype dtype, double seconds) {
  const std::size_t index = workload::Index(dtype);
  RoofNeeds needs;
  needs.dtypes.set(index);
  Calibrate(needs, kUncalibratedSeconds);
  return compute_[index] ? compute_[index](seconds) : 0;
}

}  // namespace roofbench::hardware
