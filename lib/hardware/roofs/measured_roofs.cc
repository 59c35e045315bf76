// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/measured_roofs.h"

#include <algorithm>

namespace roofbench::hardware {
namespace {

constexpr double kNegligibleShare = 0.02;  // of a mix's traffic

double Traffic(const TrafficMix& mix, StreamKind kind) {
  return StreamShares{mix.read, mix.copy, mix.update, mix.write}[Index(kind)];
}

}  // namespace

TrafficMix MixOf(const workload::Cost& cost) {
  TrafficMix mix;
  for (const workload::Operation& operation : cost.operations) {
    const double copied = std::min(operation.bytes_read, operation.bytes_written);
    mix.read += operation.repeat * (operation.bytes_read - copied);
    mix.write += operation.repeat * (operation.bytes_written - copied);
    mix.copy += operation.repeat * 2 * copied;
    mix.update += operation.repeat * 2 * operation.bytes_updated;
  }
  return mix;
}

StreamShares SharesOf(const TrafficMix& mix) {
  double total = 0;
  for (const StreamKind kind : kStreamKinds) total += Traffic(mix, kind);
  StreamShares shares{};
  double counted = 0;
  for (const StreamKind kind : kStreamKinds) {
    const double share = total > 0 ? Traffic(mix, kind) / total : 0;
    if (share >= kNegligibleShare) counted += shares[Index(kind)] = share;
  }
  for (double& share : shares) share = counted > 0 ? share / counted : 0;
  return shares;
}

bool MovesNothing(const StreamShares& shares) {
  return std::ranges::all_of(shares, [](double share) { return share <= 0; });
}

RoofNeeds& RoofNeeds::operator|=(const RoofNeeds& other) {
  for (std::size_t i = 0; i < streams.size(); ++i) streams[i] = streams[i] || other.streams[i];
  for (std::size_t i = 0; i < dtypes.size(); ++i) dtypes[i] = dtypes[i] || other.dtypes[i];
  return *this;
}

// Includes every stream that moves anything, however little: the time that a roof allows counts them all.
RoofNeeds NeedsOf(const workload::Cost& cost) {
  RoofNeeds needs;
  const TrafficMix mix = MixOf(cost);
  for (const StreamKind kind : kStreamKinds) needs.streams[Index(kind)] = Traffic(mix, kind) > 0;
  for (const workload::Dtype dtype : workload::kDtypes) {
    needs.dtypes[workload::Index(dtype)] = cost.Flops(dtype) > 0;
  }
  return needs;
}

RoofNeeds StreamsAnd(std::initializer_list<workload::Dtype> dtypes) {
  RoofNeeds needs;
  needs.streams.fill(true);
  for (const workload::Dtype dtype : dtypes) needs.dtypes[workload::Index(dtype)] = true;
  return needs;
}

double& Rate(workload::Peaks& peaks, StreamKind kind) {
  return *std::array<double*, kStreamKinds.size()>{&peaks.read, &peaks.copy, &peaks.update, &peaks.write}[Index(kind)];
}

}  // namespace roofbench::hardware
