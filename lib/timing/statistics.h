// SPDX-License-Identifier: Apache-2.0
// Order statistics of a sample of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace roofbench::timing {

// Linear interpolation between order statistics (type 7 of Hyndman & Fan 1996, numpy's default). q in [0, 1]. The
// values need not be sorted. For an empty sample, functions throw std::invalid_argument unless stated otherwise.
double Quantile(std::span<const double> values, double q);
double Median(std::span<const double> values);
double Mean(std::span<const double> values);
double StandardDeviation(std::span<const double> values);  // of a sample (n - 1); 0 for fewer than two values
// 1.4826 x the median absolute deviation: the standard deviation of a normal sample, robust to outliers.
double RobustDeviation(std::span<const double> values);

struct Interval {
  double low = 0;
  double high = 0;
};

// Distribution-free confidence interval of the median from order statistics (the sign test inverted, ranks by the
// binomial distribution; by its normal approximation above 200 values). With fewer values than bound it (6 at
// 95 %): [min, max].
Interval MedianInterval(std::span<const double> values, double confidence = 0.95);

// 1 - 2 x 2^-5 < 0.95: five values cannot bound the median.
constexpr int64_t kFewestForInterval = 6;

// The ranks, from 0, of order statistics.
struct OrderRanks {
  std::size_t low = 0;
  std::size_t high = 0;
};
// Those that bound MedianInterval.
OrderRanks MedianIntervalRanks(std::size_t values, double confidence = 0.95);

// Those that bound a quantile likewise, q in (0, 1); nullopt where the smallest and the largest of so few values do
// not: at 95 %, fewer than 72 for q = 0.95, and 368 for 0.99.
std::optional<OrderRanks> QuantileIntervalRanks(std::size_t values, double q, double confidence = 0.95);

// Half the width of an interval over the median: 0 for an interval without width, infinity around a median of 0.
double RelativeHalfWidth(const Interval& interval, double median);

struct BoundedQuantile {
  double value = 0;
  double ci = 0;  // half-width over the value of its 95 % interval, which is that of independent values
};
// nullopt for an empty sample as well.
std::optional<BoundedQuantile> QuantileInInterval(std::span<const double> values, double q);

struct Summary {
  int64_t samples = 0;
  double median = 0;
  double mean = 0;
  double stddev = 0;
  double min = 0;
  double ci = 0;  // half-width of the median's 95 % interval over the median
};
Summary Summarize(std::span<const double> values);

// The median of values that arrive in chunks, and its confidence interval, without sorting all values each time.
class RunningMedian {
 public:
  // `ascending` must be sorted. Linear in all the values added so far.
  void Add(std::span<const double> ascending);

  // Half the width of the median's 95 % interval over the median; infinity before the first value.
  double RelativeHalfWidth() const;

 private:
  std::vector<double> sorted_;
  std::vector<double> merged_;  // kept for its memory
};

// Two separate groups of values, as times have where a program is in one of two states.
struct Split {
  std::size_t fast = 0;  // values in the lower group
  std::size_t slow = 0;
  double fast_median = 0;
  double slow_median = 0;
};

// The two groups on either side of the widest gap, if the gap is at least a tenth of the value below it, and at least
// three times as wide as either group; tools/roofreport/stats/verdict.py has the same rule. nullopt for fewer than four
// values.
std::optional<Split> FindSplit(std::span<const double> values);

}  // namespace roofbench::timing
