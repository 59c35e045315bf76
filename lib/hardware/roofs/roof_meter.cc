// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_meter.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

namespace roofbench::hardware {
namespace {

using workload::Dtype;

constexpr double kUncalibratedSeconds = 0.009;  // for each variant, where a roof is used before a calibration

// The need of the roof with this name; nullptr if there is no such roof.
bool* Find(RoofNeeds& needs, std::string_view roof) {
  for (const StreamKind kind : kStreamKinds) {
    if (roof == Name(kind)) return &needs.streams[Index(kind)];
  }
  for (const Dtype dtype : workload::kDtypes) {
    if (roof == workload::Name(dtype)) return &needs.dtypes[workload::Index(dtype)];
  }
  return nullptr;
}

}  // namespace

RoofNeeds NeedsOf(const std::vector<RoofReading>& readings) {
  RoofNeeds needs;
  for (const RoofReading& reading : readings) {
    if (bool* const needed = Find(needs, reading.roof)) *needed = true;
  }
  return needs;
}

void RoofMeter::AddComputeProbe(Dtype dtype, std::string name, ComputeProbe probe) {
  std::erase_if(probes_, [&](const NamedProbe& known) { return known.dtype == dtype && known.name == name; });
  probes_.push_back({dtype, std::move(name), std::move(probe)});
  known_.dtypes[workload::Index(dtype)] = false;
}

RoofNeeds RoofMeter::Unknown(RoofNeeds needs) const {
  for (std::size_t i = 0; i < needs.streams.size(); ++i) needs.streams[i] = needs.streams[i] && !known_.streams[i];
  for (std::size_t i = 0; i < needs.dtypes.size(); ++i) needs.dtypes[i] = needs.dtypes[i] && !known_.dtypes[i];
  return needs;
}

std::vector<Candidate> RoofMeter::CandidatesFor(const RoofNeeds& needs) {
  std::vector<Candidate> candidates;
  if (needs.streams != std::array<bool, kStreamKinds.size()>{}) {
    candidates = StreamCandidates();
    std::erase_if(candidates, [&](const Candidate& candidate) {
      return std::ranges::none_of(
          kStreamKinds, [&](StreamKind kind) { return needs.streams[Index(kind)] && candidate.roof == Name(kind); });
    });
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
  const RoofNeeds unknown = Unknown(needs);
  std::vector<Candidate> candidates = CandidatesFor(unknown);
  if (roof_by_roof_) {
    const auto is_stream = [](const Candidate& candidate) {
      return std::ranges::any_of(kStreamKinds, [&](StreamKind kind) { return candidate.roof == Name(kind); });
    };
    const auto compute = std::ranges::find_if_not(candidates, is_stream);
    for (auto first = candidates.begin(); first != compute;) {
      const auto last = std::find_if(first, compute, [&](const Candidate& next) { return next.roof != first->roof; });
      Compete(std::span(first, last), seconds_each);
      first = last;
    }
    Compete(std::span(compute, candidates.end()), seconds_each);
  } else {
    Compete(candidates, seconds_each);
  }
  Take(unknown, candidates);
}

void RoofMeter::Restore(const std::vector<RoofReading>& readings) {
  RoofNeeds restored = Unknown(NeedsOf(readings));
  std::vector<Candidate> candidates = CandidatesFor(restored);
  for (Candidate& candidate : candidates) {
    for (const RoofReading& reading : readings) {
      if (reading.roof != candidate.roof || reading.variant != candidate.variant) continue;
      candidate.rate = reading.rate;
      candidate.range = reading.range;
      candidate.standing = reading.best ? 2 : 1;
    }
  }
  // Where the best variant is missing, the rate of another one is not the roof.
  for (const RoofReading& reading : readings) {
    if (!reading.best) continue;
    const bool is_here = std::ranges::any_of(candidates, [&](const Candidate& candidate) {
      return candidate.roof == reading.roof && candidate.variant == reading.variant;
    });
    bool* const needed = Find(restored, reading.roof);
    if (!is_here && needed != nullptr) *needed = false;
  }
  Take(restored, candidates);
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

double RoofMeter::MeasureMemory(const TrafficMix& mix, double seconds) {
  const StreamShares shares = SharesOf(mix);
  if (MovesNothing(shares)) return 0;
  RoofNeeds needs;
  for (std::size_t i = 0; i < shares.size(); ++i) needs.streams[i] = shares[i] > 0;
  Calibrate(needs, kUncalibratedSeconds);
  return MeasureStreams(shares, seconds);
}

double RoofMeter::MeasureCache(const TrafficMix& mix, double working_set_bytes, double seconds) {
  const StreamShares shares = SharesOf(mix);
  if (working_set_bytes <= 0 || MovesNothing(shares)) return 0;
  return MeasureStreamsInCache(shares, working_set_bytes, seconds);
}

double RoofMeter::MeasureCompute(Dtype dtype, double seconds) {
  const std::size_t index = workload::Index(dtype);
  RoofNeeds needs;
  needs.dtypes[index] = true;
  Calibrate(needs, kUncalibratedSeconds);
  return compute_[index] ? compute_[index](seconds) : 0;
}

}  // namespace roofbench::hardware
