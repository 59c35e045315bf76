// SPDX-License-Identifier: Apache-2.0
#include "lib/ranks/link_meter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lib/timing/statistics.h"

namespace roofbench::ranks {
namespace {

constexpr int64_t kShortBytes = 8;
constexpr int64_t kLeastLongBytes = 64 << 10;
constexpr double kLeastRounds = 3;
constexpr double kMostRounds = 10'000;

}  // namespace

LinkSpeed FitLink(double short_bytes, double short_seconds, double long_bytes, double long_seconds) {
  if (!(long_seconds > short_seconds)) return {};
  const double beta = (long_bytes - short_bytes) / (long_seconds - short_seconds);
  return {.alpha = std::max(0.0, short_seconds - short_bytes / beta), .beta = beta};
}

LinkMeter::LinkMeter(Group& group, int64_t bytes, std::unique_ptr<timing::Clock> clock, at::Device device)
    : group_(group),
      clock_(std::move(clock)),
      short_(at::ones({kShortBytes}, at::TensorOptions(device).dtype(at::kByte))),
      long_(at::ones({std::max(bytes, kLeastLongBytes)}, short_.options())) {}

double LinkMeter::OneWay(at::Tensor& message, int64_t rounds) {
  const int partner = group_.rank() ^ 1;
  if (partner >= group_.size()) return 0;
  clock_->BeginChunk(static_cast<std::size_t>(rounds) + 1);
  clock_->Mark();
  for (int64_t round = 0; round < rounds; ++round) {
    if (partner > group_.rank()) {
      group_.Send(message, partner);
      group_.Receive(message, partner);
    } else {
      group_.Receive(message, partner);
      group_.Send(message, partner);
    }
    clock_->Mark();
  }
  const std::span<const double> marks = clock_->EndChunk();
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks.size(); ++i) seconds.push_back((marks[i] - marks[i - 1]) / 2);
  return timing::Median(seconds);
}

LinkSpeed LinkMeter::Measure(double seconds) {
  // Rank 0 decides how often, by one round, which also warms up.
  const double round = 2 * (OneWay(short_, 1) + OneWay(long_, 1));
  const double most = std::min(kMostRounds, static_cast<double>(clock_->MaxMarks() - 1));
  at::Tensor rounds = at::full({1}, round > 0 ? std::clamp(seconds / round, kLeastRounds, most) : 1, at::kDouble);
  group_.Broadcast(rounds, 0);
  const auto count = static_cast<int64_t>(rounds.item<double>());
  const at::Tensor mine = at::tensor({OneWay(short_, count), OneWay(long_, count)}, at::kDouble);
  at::Tensor all = at::empty({2 * int64_t{group_.size()}}, at::kDouble);
  group_.AllGather(all, mine);
  const at::Tensor slowest = all.view({-1, 2}).amax(0);
  return FitLink(kShortBytes, slowest[0].item<double>(), static_cast<double>(long_.numel()), slowest[1].item<double>());
}

}  // namespace roofbench::ranks
