// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/timing/statistics.h"

namespace roofbench::timing {
namespace {

using ::testing::DoubleNear;

// Quantiles, mean and deviation of these by numpy: quantile(v, q), mean(v), std(v, ddof=1).
constexpr std::array<double, 8> kValues = {3.1, 0.2, 7.7, 5.5, 1.4, 9.0, 2.6, 4.3};

std::vector<double> Ramp(int count) {  // 1 … count, shuffled: a rank is its value
  std::vector<double> values;
  for (int i = 1; i <= count; ++i) values.push_back(i);
  std::shuffle(values.begin(), values.end(), std::mt19937(7));  // NOLINT(cert-msc51-cpp): fixed on purpose
  return values;
}

TEST(Quantile, AgreesWithNumpy) {
  struct {
    double q;
    double value;
  } const expected[] = {{0, 0.2}, {0.1, 1.04}, {0.25, 2.3}, {0.5, 3.7}, {0.95, 8.545}, {1, 9.0}};
  for (const auto& [q, value] : expected) EXPECT_NEAR(Quantile(kValues, q), value, 1e-12) << q;
}

TEST(Quantile, OfOneValueIsThatValue) {
  for (const double q : {0.0, 0.3, 1.0}) EXPECT_EQ(Quantile(std::vector<double>{4.0}, q), 4.0);
}

TEST(Quantile, RefusesUndefinedQuantiles) {
  EXPECT_THROW(Quantile({}, 0.5), std::invalid_argument);
  EXPECT_THROW(Quantile(kValues, -0.1), std::invalid_argument);
  EXPECT_THROW(Quantile(kValues, 1.1), std::invalid_argument);
  EXPECT_THROW(Quantile(kValues, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
}

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(Median(Ramp(7)), 4);
  EXPECT_EQ(Median(Ramp(8)), 4.5);
}

TEST(Moments, AgreeWithNumpy) {
  EXPECT_NEAR(Mean(kValues), 4.225, 1e-12);
  EXPECT_NEAR(StandardDeviation(kValues), 3.037738820711409, 1e-12);
  EXPECT_EQ(StandardDeviation(std::vector<double>{3}), 0);
  EXPECT_EQ(StandardDeviation({}), 0);
  EXPECT_THROW(Mean({}), std::invalid_argument);
}

TEST(RobustDeviation, IgnoresOutliers) {
  // Deviations from the median 3.7: 0.6 3.5 4.0 1.8 2.3 5.3 1.1 0.6, their median (1.8 + 2.3) / 2 = 2.05.
  EXPECT_NEAR(RobustDeviation(kValues), 1.4826 * 2.05, 1e-12);
  auto spoilt = kValues;
  *std::max_element(spoilt.begin(), spoilt.end()) = 1e9;
  EXPECT_EQ(RobustDeviation(spoilt), RobustDeviation(kValues));
}

TEST(MedianInterval, HasTheRanksOfTheSignTest) {
  // The largest r with 2 P(B < r) <= 1 - confidence, B binomial (n, 1/2), in exact integer arithmetic; for n = 10:
  // 2 (1 + 10) / 2^10 = 0.021 and 2 (1 + 10 + 45) / 2^10 = 0.109, so r = 2 and the interval is [x(2), x(9)].
  struct {
    int count;
    double confidence;
    double low;
    double high;
  } const expected[] = {{6, 0.95, 1, 6},      {8, 0.95, 1, 8},   {9, 0.95, 2, 8},   {10, 0.95, 2, 9},
                        {15, 0.95, 4, 12},    {20, 0.95, 6, 15}, {25, 0.95, 8, 18}, {100, 0.95, 40, 61},
                        {200, 0.95, 86, 115}, {20, 0.99, 4, 17}, {20, 0.90, 6, 15}};
  for (const auto& [count, confidence, low, high] : expected) {
    const Interval interval = MedianInterval(Ramp(count), confidence);
    EXPECT_EQ(interval.low, low) << count << " values, " << confidence;
    EXPECT_EQ(interval.high, high) << count << " values, " << confidence;
  }
}

TEST(MedianInterval, OfFewValuesIsAllOfThem) {
  for (int count = 1; count < 6; ++count) {
    const Interval interval = MedianInterval(Ramp(count));
    EXPECT_EQ(interval.low, 1);
    EXPECT_EQ(interval.high, count);
  }
  EXPECT_THROW(MedianInterval({}), std::invalid_argument);
}

// P(B <= k), B binomial (n, 1/2).
double BinomialBelow(int n, int k) {
  double sum = 0;
  for (int i = 0; i <= k; ++i) {
    sum += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) - n * std::log(2.0));
  }
  return sum;
}

TEST(MedianInterval, IsNeverTooNarrowAndAtMostOneRankTooWide) {
  for (int n = 6; n < 1200; n += (n < 220 ? 1 : 37)) {
    const OrderRanks ranks = MedianIntervalRanks(static_cast<std::size_t>(n));
    const int low = static_cast<int>(ranks.low);
    EXPECT_EQ(ranks.low + ranks.high, static_cast<std::size_t>(n - 1));
    EXPECT_GE(1 - 2 * BinomialBelow(n, low), 0.95 - 1e-9) << n;
    EXPECT_LT(1 - 2 * BinomialBelow(n, low + 2), 0.95) << n;
  }
}

TEST(MedianInterval, CoversTheMedianAsOftenAsItSays) {
  // Exact coverages 1 - 2 P(B < r); four standard deviations of 4,000 trials at 0.95 are 0.014.
  struct {
    std::size_t count;
    double coverage;
  } const expected[] = {{10, 0.9785}, {30, 0.9572}, {100, 0.9648}, {401, 0.9544}};
  std::mt19937_64 random(20);  // NOLINT(cert-msc51-cpp): fixed on purpose
  constexpr int kTrials = 4000;
  for (const auto& [count, coverage] : expected) {
    int covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      // Skewed as times are: 1 + the square of a uniform number, median 1.25.
      std::vector<double> values(count);
      for (double& value : values) {
        const double uniform = std::ldexp(static_cast<double>(random() >> 11), -53);
        value = 1 + uniform * uniform;
      }
      const Interval interval = MedianInterval(values);
      covered += interval.low <= 1.25 && 1.25 <= interval.high;
    }
    EXPECT_THAT(static_cast<double>(covered) / kTrials, DoubleNear(coverage, 0.014)) << count << " values";
  }
}

TEST(QuantileInterval, NeedsAsManyValuesAsReachBeyondIt) {
  for (const auto& [q, fewest] : {std::pair{0.95, 72U}, {0.99, 368U}, {0.05, 72U}, {0.5, 6U}}) {
    EXPECT_FALSE(QuantileIntervalRanks(fewest - 1, q)) << q;
    EXPECT_TRUE(QuantileIntervalRanks(fewest, q)) << q;
  }
  EXPECT_FALSE(QuantileIntervalRanks(0, 0.95));
  EXPECT_FALSE(QuantileInInterval({}, 0.95));
}

// By scipy.stats.binom: the ranks closest to the quantile that it is beyond with 2.5 % at most.
TEST(QuantileInterval, HasTheRanksOfTheBinomialDistribution) {
  struct {
    std::size_t count;
    double q;
    std::size_t low;
    std::size_t high;
  } const expected[] = {{72, 0.95, 63, 71},       {100, 0.95, 89, 99},        {500, 0.95, 464, 484},
                        {368, 0.99, 359, 367},    {1000, 0.99, 982, 996},     {2000, 0.99, 1970, 1988},
                        {2000, 0.95, 1879, 1919}, {20000, 0.99, 19771, 19827}};
  for (const auto& [count, q, low, high] : expected) {
    const std::optional<OrderRanks> ranks = QuantileIntervalRanks(count, q);
    ASSERT_TRUE(ranks) << count;
    const double off = count < 2000 ? 0 : 1;  // many are taken as normal
    EXPECT_THAT(static_cast<double>(ranks->low), DoubleNear(static_cast<double>(low), off)) << count << " " << q;
    EXPECT_THAT(static_cast<double>(ranks->high), DoubleNear(static_cast<double>(high), off)) << count << " " << q;
  }
}

TEST(QuantileInInterval, StatesHalfItsWidthOverItsValue) {
  const std::optional<BoundedQuantile> p95 = QuantileInInterval(Ramp(100), 0.95);
  ASSERT_TRUE(p95);
  EXPECT_NEAR(p95->value, 1 + 0.95 * 99, 1e-9);
  EXPECT_NEAR(p95->ci, (100 - 90) / 2.0 / p95->value, 1e-12) << "the 90th and the largest";
}

TEST(RelativeHalfWidth, IsNeverNotANumber) {
  EXPECT_DOUBLE_EQ(RelativeHalfWidth({.low = 9, .high = 11}, 10), 0.1);
  EXPECT_EQ(RelativeHalfWidth({.low = 0, .high = 0}, 0), 0);
  EXPECT_EQ(RelativeHalfWidth({.low = 0, .high = 1}, 0), std::numeric_limits<double>::infinity());
}

TEST(Summarize, StatesEveryStatistic) {
  const Summary summary = Summarize(Ramp(100));
  EXPECT_EQ(summary.samples, 100);
  EXPECT_EQ(summary.median, 50.5);
  EXPECT_EQ(summary.mean, 50.5);
  EXPECT_NEAR(summary.stddev, std::sqrt(100 * 101 / 12.0), 1e-9);  // of 1 … n: n (n + 1) / 12
  EXPECT_EQ(summary.min, 1);
  EXPECT_NEAR(summary.ci, (61 - 40) / 2.0 / 50.5, 1e-12);
  EXPECT_THROW(Summarize({}), std::invalid_argument);
}

TEST(RunningMedian, AgreesWithTheIntervalOfAllValuesAfterEachChunk) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): fixed on purpose
  RunningMedian running;
  std::vector<double> all;
  for (const std::size_t size : {1, 1, 3, 40, 2, 0, 200, 7, 300}) {
    std::vector<double> chunk(size);
    for (double& value : chunk) value = 1 + static_cast<double>(random() % 50);  // with many ties
    all.insert(all.end(), chunk.begin(), chunk.end());
    std::sort(chunk.begin(), chunk.end());
    running.Add(chunk);
    EXPECT_DOUBLE_EQ(running.RelativeHalfWidth(), RelativeHalfWidth(MedianInterval(all), Median(all))) << all.size();
  }
}

TEST(RunningMedian, OfAnEvenNumberLiesBetweenTheMiddleTwo) {
  RunningMedian running;
  running.Add(std::vector<double>{4});
  running.Add(std::vector<double>{1});
  EXPECT_DOUBLE_EQ(running.RelativeHalfWidth(), 1.5 / 2.5);
}

TEST(RunningMedian, KnowsNothingWithoutValues) {
  EXPECT_EQ(RunningMedian().RelativeHalfWidth(), std::numeric_limits<double>::infinity());
}

TEST(FindSplit, TwoStatesAreFoundWhateverTheirShares) {
  const auto first = FindSplit(std::vector<double>{202, 282, 284, 285, 287, 283});
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->fast, 1);
  EXPECT_EQ(first->slow, 5);
  EXPECT_EQ(first->fast_median, 202);
  EXPECT_EQ(first->slow_median, 284);
  const auto half = FindSplit(std::vector<double>{3, 1, 3.1, 1.1});
  ASSERT_TRUE(half.has_value());
  EXPECT_EQ(half->fast, 2);
}

TEST(FindSplit, ScatterIsNotASplit) {
  EXPECT_FALSE(FindSplit(std::vector<double>{100, 110, 121, 133, 146}).has_value()) << "evenly spread";
  EXPECT_FALSE(FindSplit(std::vector<double>{100, 101, 102, 104, 108}).has_value()) << "within a tenth";
  EXPECT_FALSE(FindSplit(std::vector<double>{1, 1, 1, 1}).has_value());
  EXPECT_FALSE(FindSplit(std::vector<double>{1, 2, 2}).has_value()) << "too few";
}

}  // namespace
}  // namespace roofbench::timing
