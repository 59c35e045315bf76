// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/roof_meter.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace roofbench::hardware {
namespace {

using workload::Dtype;

constexpr double kUncalibratedSeconds = 0.009;  // for each variant, where a measurement comes before Calibrate

}  // namespace

void RoofMeter::AddComputeProbe(Dtype dtype, std::string name, ComputeProbe probe) {
  probes_.push_back({dtype, std::move(name), std::move(probe)});
}

void RoofMeter::Calibrate(const std::vector<Dtype>& dtypes, double seconds_each) {
  std::vector<Dtype> distinct = dtypes;
  std::ranges::sort(distinct);
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Calibrate(/*streams=*/true, distinct, seconds_each);
}

void RoofMeter::Calibrate(bool streams, const std::vector<Dtype>& dtypes, double seconds_each) {
  std::vector<Contender> contenders;
  if (streams) contenders = StreamContenders();
  const auto first_compute = static_cast<std::ptrdiff_t>(contenders.size());
  for (const Dtype dtype : dtypes) {
    std::ranges::move(ComputeContenders(dtype), std::back_inserter(contenders));
    for (const NamedProbe& named : probes_) {
      if (named.dtype != dtype) continue;
      contenders.push_back({.roof = std::string(workload::Name(dtype)), .variant = named.name, .measure = named.probe});
    }
  }
  if (roof_by_roof_) {
    const auto compute = contenders.begin() + first_compute;
    for (auto first = contenders.begin(); first != compute;) {
      const auto last = std::find_if(first, compute, [&](const Contender& next) { return next.roof != first->roof; });
      Compete(std::span(first, last), seconds_each);
      first = last;
    }
    Compete(std::span(compute, contenders.end()), seconds_each);
  } else {
    Compete(contenders, seconds_each);
  }
  if (streams) {
    streams_known_ = true;
    for (const StreamKind kind : kStreamKinds) {
      const Contender* winner = Winner(contenders, Name(kind));
      Rate(peaks_, kind) = winner == nullptr ? 0 : winner->rate;
      if (winner != nullptr) Choose(kind, *winner);
      if (winner != nullptr && kind == StreamKind::kRead) memory_speed_ = winner->range;
    }
  }
  for (const Dtype dtype : dtypes) {
    const Contender* winner = Winner(contenders, workload::Name(dtype));
    compute_known_[workload::Index(dtype)] = true;
    compute_[workload::Index(dtype)] = winner == nullptr ? nullptr : winner->measure;
    peaks_.flops_per_second[workload::Index(dtype)] = winner == nullptr ? 0 : winner->rate;
  }
  Report(contenders);
}

void RoofMeter::Report(const std::vector<Contender>& contenders) {
  for (const Contender& contender : contenders) {
    std::erase_if(readings_, [&](const RoofReading& reading) { return reading.roof == contender.roof; });
  }
  for (const Contender& contender : contenders) {
    readings_.push_back({.roof = contender.roof,
                         .variant = contender.variant,
                         .rate = contender.rate,
                         .best = &contender == Winner(contenders, contender.roof)});
  }
}

double RoofMeter::MeasureMemory(const TrafficMix& mix, double seconds) {
  if (!streams_known_) Calibrate(/*streams=*/true, {}, kUncalibratedSeconds);
  const StreamShares shares = SharesOf(mix);
  return MovesNothing(shares) ? 0 : MeasureStreams(shares, seconds);
}

double RoofMeter::MeasureCache(const TrafficMix& mix, double working_set_bytes, double seconds) {
  const StreamShares shares = SharesOf(mix);
  if (working_set_bytes <= 0 || MovesNothing(shares)) return 0;
  return MeasureStreamsInCache(shares, working_set_bytes, seconds);
}

double RoofMeter::MeasureCompute(Dtype dtype, double seconds) {
  const std::size_t index = workload::Index(dtype);
  if (!compute_known_[index]) Calibrate(/*streams=*/false, {dtype}, kUncalibratedSeconds);
  return compute_[index] ? compute_[index](seconds) : 0;
}

}  // namespace roofbench::hardware
