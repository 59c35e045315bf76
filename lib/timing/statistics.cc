// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "lib/timing/series.h"

namespace roofbench::timing {

namespace {

constexpr double kMostExactVariance = 50;     // above, the binomial distribution is taken as normal
constexpr double kDeviationsPerMad = 1.4826;  // 1 / Phi^-1(3/4)

void RequireValues(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("a statistic of no values");
}

std::vector<double> Copy(std::span<const double> values) {
  RequireValues(values);
  return {values.begin(), values.end()};
}

// The order statistic of rank `rank`, from 0. Both functions reorder their argument, which saves a copy per quantile.
double SelectRank(std::vector<double>& values, std::size_t rank) {
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

double SelectQuantile(std::vector<double>& values, double q) {
  const double position = q * static_cast<double>(values.size() - 1);
  const auto rank = static_cast<std::size_t>(position);
  const double low = SelectRank(values, rank);
  if (rank + 1 == values.size()) return low;
  const double high = *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(rank) + 1, values.end());
  return low + (position - static_cast<double>(rank)) * (high - low);
}

// Solves rising(x) = target for x in [low, high].
template <typename Function>
double Bisect(const Function& rising, double target, double low, double high) {
  for (int i = 0; i < std::numeric_limits<double>::digits + 4; ++i) {
    const double middle = std::midpoint(low, high);
    (rising(middle) < target ? low : high) = middle;
  }
  return std::midpoint(low, high);
}

// z with P(|Z| <= z) = confidence for a standard normal Z.
double NormalQuantile(double confidence) {
  constexpr double kBeyondDouble = 9;  // erf(9 / sqrt 2) is 1 in double precision
  return Bisect([](double z) { return std::erf(z / std::numbers::sqrt2); }, confidence, 0, kBeyondDouble);
}

}  // namespace

double Quantile(std::span<const double> values, double q) {
  if (!(q >= 0 && q <= 1)) throw std::invalid_argument("a quantile outside of [0, 1]");
  std::vector<double> scratch = Copy(values);
  return SelectQuantile(scratch, q);
}

double Median(std::span<const double> values) { return Quantile(values, 0.5); }

double Mean(std::span<const double> values) {
  RequireValues(values);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double StandardDeviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double RobustDeviation(std::span<const double> values) {
  std::vector<double> scratch = Copy(values);
  const double median = SelectQuantile(scratch, 0.5);
  for (double& value : scratch) value = std::abs(value - median);
  return kDeviationsPerMad * SelectQuantile(scratch, 0.5);
}

std::optional<OrderRanks> QuantileIntervalRanks(std::size_t values, double q, double confidence) {
  // Above the quantile lie A values, binomial (n, 1 - q): it exceeds the one that `most` exceed with P(A <= most), and
  // is below the one that `fewest` - 1 exceed with P(A >= fewest).
  double most = -1;
  double fewest = 0;
  const auto n = static_cast<double>(values);
  const double mean = n * (1 - q);
  if (const double variance = mean * q; variance > kMostExactVariance) {
    const double reach = NormalQuantile(confidence) * std::sqrt(variance) + 0.5;  // 0.5: continuity
    most = std::floor(mean - reach);
    fewest = std::ceil(mean + reach);
  } else {
    const double tail = (1 - confidence) / 2;
    double mass = std::pow(q, n);
    for (double below = mass; below < 1 - tail && fewest <= n; below += mass) {
      if (below <= tail) most = fewest;
      ++fewest;
      mass *= (n - fewest + 1) / fewest * ((1 - q) / q);
    }
    ++fewest;
  }
  if (most < 0 || fewest > n) return std::nullopt;
  return OrderRanks{.low = values - static_cast<std::size_t>(fewest),
                    .high = values - 1 - static_cast<std::size_t>(most)};
}

OrderRanks MedianIntervalRanks(std::size_t values, double confidence) {
  if (values == 0) throw std::invalid_argument("an interval of no values");
  return QuantileIntervalRanks(values, 0.5, confidence).value_or(OrderRanks{.low = 0, .high = values - 1});
}

Interval MedianInterval(std::span<const double> values, double confidence) {
  std::vector<double> scratch = Copy(values);
  const OrderRanks ranks = MedianIntervalRanks(values.size(), confidence);
  return {.low = SelectRank(scratch, ranks.low), .high = SelectRank(scratch, ranks.high)};
}

double RelativeHalfWidth(const Interval& interval, double median) {
  const double half_width = (interval.high - interval.low) / 2;
  return half_width == 0 ? 0 : half_width / std::abs(median);
}

std::optional<BoundedQuantile> QuantileInInterval(std::span<const double> values, double q) {
  const std::optional<OrderRanks> ranks = QuantileIntervalRanks(values.size(), q);
  if (!ranks) return std::nullopt;
  std::vector<double> scratch = Copy(values);
  const double value = SelectQuantile(scratch, q);
  const Interval interval = {.low = SelectRank(scratch, ranks->low), .high = SelectRank(scratch, ranks->high)};
  return BoundedQuantile{.value = value, .ci = RelativeHalfWidth(interval, value)};
}

Summary Summarize(std::span<const double> values) {
  std::vector<double> scratch = Copy(values);
  const double median = SelectQuantile(scratch, 0.5);
  return {.samples = static_cast<int64_t>(values.size()),
          .median = median,
          .mean = Mean(values),
          .stddev = StandardDeviation(values),
          .min = *std::min_element(values.begin(), values.end()),
          .ci = RelativeHalfWidth(SeriesMedianInterval(values), median)};
}

void RunningMedian::Add(std::span<const double> ascending) {
  merged_.resize(sorted_.size() + ascending.size());
  std::merge(sorted_.begin(), sorted_.end(), ascending.begin(), ascending.end(), merged_.begin());
  std::swap(sorted_, merged_);
}

double RunningMedian::RelativeHalfWidth() const {
  if (sorted_.empty()) return std::numeric_limits<double>::infinity();
  const OrderRanks ranks = MedianIntervalRanks(sorted_.size());
  const double median = std::midpoint(sorted_[(sorted_.size() - 1) / 2], sorted_[sorted_.size() / 2]);
  return timing::RelativeHalfWidth({.low = sorted_[ranks.low], .high = sorted_[ranks.high]}, median);
}

std::optional<Split> FindSplit(std::span<const double> values) {
  constexpr std::size_t kFewest = 4;
  constexpr double kLeastGap = 0.1;    // of the value below it
  constexpr double kGapOverGroup = 3;  // groups of this width do not produce such a gap by chance
  if (values.size() < kFewest) return std::nullopt;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::size_t upper = 1;  // where the slow group begins
  for (std::size_t i = 2; i < sorted.size(); ++i) {
    if (sorted[i] - sorted[i - 1] > sorted[upper] - sorted[upper - 1]) upper = i;
  }
  const std::span<const double> fast(sorted.data(), upper);
  const std::span<const double> slow(sorted.data() + upper, sorted.size() - upper);
  const double gap = slow.front() - fast.back();
  const double widest = std::max(fast.back() - fast.front(), slow.back() - slow.front());
  if (gap < kLeastGap * fast.back() || gap < kGapOverGroup * widest) return std::nullopt;
  return Split{fast.size(), slow.size(), Median(fast), Median(slow)};
}

}  // namespace roofbench::timing
