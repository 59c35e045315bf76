// SPDX-License-Identifier: Apache-2.0
#include "lib/run/slowest_clock.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "lib/timing/statistics.h"

namespace roofbench {

SlowestClock::SlowestClock(timing::Clock& clock, ranks::Group& group, std::function<bool()> interrupted,
                           std::function<double()> other_cpu)
    : ForwardingClock(clock),
      group_(group),
      poll_interrupted_(std::move(interrupted)),
      other_cpu_(std::move(other_cpu)),
      lasts_(static_cast<std::size_t>(group.size())) {
  Exchange({});
}

std::vector<std::vector<double>> SlowestClock::Exchange(std::span<const double> mine) {
  constexpr std::size_t kOwn = 2;  // numbers before `mine`
  const auto count = static_cast<int64_t>(kOwn + mine.size());
  at::Tensor input = at::empty({count}, at::kDouble);
  auto* const numbers = input.data_ptr<double>();
  numbers[0] = Wrapped().HostSeconds();
  numbers[1] = poll_interrupted_ && poll_interrupted_() ? 1 : 0;
  std::copy(mine.begin(), mine.end(), numbers + kOwn);
  at::Tensor output = at::empty({group_.size() * count}, at::kDouble);
  group_.AllGather(output, input);
  const auto* const all = output.data_ptr<double>();
  host_seconds_ = all[0];
  interrupted_ = all[1] > 0;
  std::vector<std::vector<double>> by_rank;
  for (int rank = 0; rank < group_.size(); ++rank) {
    by_rank.emplace_back(all + rank * count + kOwn, all + (rank + 1) * count);
  }
  return by_rank;
}

void SlowestClock::BeginSample() {
  group_.Meet();
  starts_sample_ = true;
}

void SlowestClock::BeginChunk(std::size_t marks) {
  marked_ = 0;
  starts_.clear();
  Wrapped().BeginChunk(marks);
}

void SlowestClock::Mark() {
  Wrapped().Mark();
  if (std::exchange(starts_sample_, false)) starts_.push_back(marked_);
  ++marked_;
}

std::span<const double> SlowestClock::EndChunk() {
  const std::vector<std::vector<double>> by_rank = Exchange(Wrapped().EndChunk());
  marks_.assign(1, 0);
  std::size_t base = 0;  // the mark from which the ranks count
  auto next = starts_.begin();
  std::vector<double> seconds(by_rank.size());
  for (std::size_t mark = 1; mark < marked_; ++mark) {
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      seconds[rank] = by_rank[rank][mark] - by_rank[rank][base];
    }
    marks_.push_back(marks_[base] + *std::ranges::max_element(seconds));
    const bool is_start = next != starts_.end() && *next == mark;
    if (is_start) {
      base = mark;
      ++next;
    } else if (base > 0 && (mark + 1 == marked_ || (next != starts_.end() && *next == mark + 1))) {
      NoteSample(seconds);
    }
  }
  return marks_;
}

void SlowestClock::NoteSample(const std::vector<double>& seconds) {
  const auto [first, last] = std::ranges::minmax_element(seconds);
  skews_.push_back(*last - *first);
  ++lasts_[static_cast<std::size_t>(last - seconds.begin())];
}

double SlowestClock::SkewSeconds() const { return skews_.empty() ? 0 : timing::Median(skews_); }

int SlowestClock::LastRank() const { return static_cast<int>(std::ranges::max_element(lasts_) - lasts_.begin()); }

double SlowestClock::FloorSeconds() {
  constexpr std::size_t kMeetings = 20;
  if (floor_) return *floor_;
  Wrapped().BeginChunk(kMeetings + 1);
  Wrapped().Mark();
  for (std::size_t meeting = 0; meeting < kMeetings; ++meeting) {
    group_.Meet();
    Wrapped().Mark();
  }
  const std::span<const double> marks = Wrapped().EndChunk();
  std::vector<double> gaps;
  for (std::size_t i = 1; i < marks.size(); ++i) gaps.push_back(marks[i] - marks[i - 1]);
  floor_ = Wrapped().FloorSeconds();
  const double mine = timing::Median(gaps);
  for (const std::vector<double>& gap : Exchange({&mine, 1})) floor_ = std::max(*floor_, gap.front());
  // The clock's own floor differs between ranks.
  floor_ = Exchange({&*floor_, 1}).front().front();
  return *floor_;
}

}  // namespace roofbench
