// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "lib/timing/sampler.h"
#include "lib/timing/series.h"
#include "lib/timing/statistics.h"
#include "tests/timing/fake_clock.h"

namespace roofbench::timing {
namespace {

constexpr int kTrials = 400;  // one standard deviation of a coverage of 0.95 is 0.011, of one of 0.90 it is 0.015

// Normal deviations from a median of 0, each correlated with the one before.
class Deviations {
 public:
  Deviations(double rho, uint64_t seed) : rho_(rho), random_(seed), last_(normal_(random_)) {}

  double Next() {
    last_ = rho_ * last_ + std::sqrt(1 - rho_ * rho_) * normal_(random_);
    return last_;
  }

 private:
  double rho_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double last_;
};

// Times around 1 that scatter by 2 %.
class Steady {
 public:
  Steady(double rho, uint64_t seed) : deviations_(rho, seed) {}
  double Next() { return 1 + 0.02 * deviations_.Next(); }

 private:
  Deviations deviations_;
};

// A monotone function keeps the median where it was.
using Shape = double (*)(double deviation);
double Normal(double deviation) { return deviation; }
double Skewed(double deviation) { return std::exp(deviation) - 1; }
double HeavyTailed(double deviation) { return deviation * std::exp(deviation * deviation / 4); }

// How often the interval contains the true median of simulated times.
class Coverage : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "hundreds of trials show a sanitizer nothing that the other tests do not";
#endif
  }
};

TEST_F(Coverage, OfAFixedNumberOfSamples) {
  const struct {
    double rho;
    Shape shape;
    int samples;
    double least;
  } table[] = {
      {0, Normal, 10, 0.93},      {0, Normal, 100, 0.93},       {0, HeavyTailed, 1000, 0.92},
      {0.3, Normal, 20, 0.88},    {0.3, Normal, 100, 0.92},     {0.3, Skewed, 1000, 0.92},
      {0.6, Normal, 50, 0.88},    {0.6, HeavyTailed, 200, 0.9}, {0.6, Normal, 1000, 0.92},
      {0.9, Normal, 100, 0.86},   {0.9, Skewed, 300, 0.9},      {0.9, HeavyTailed, 1000, 0.91},
      {0.98, Normal, 1000, 0.86},
  };
  for (const auto& [rho, shape, samples, least] : table) {
    int covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Deviations deviations(rho, static_cast<uint64_t>(trial));
      std::vector<double> series;
      for (int i = 0; i < samples; ++i) series.push_back(1 + 0.02 * shape(deviations.Next()));
      const Interval interval = SeriesMedianInterval(series);
      covered += interval.low <= 1 && 1 <= interval.high;
    }
    EXPECT_GE(static_cast<double>(covered) / kTrials, least) << "rho " << rho << ", " << samples << " samples";
  }
}

// The real sampler and its stopping rule, with a clock that the deviations move.
struct Sampled {
  double coverage = 0;
  double samples = 0;  // mean
};

Sampled SampleAll(double rho, double step_seconds, double deviation, int trials = kTrials) {
  Sampled all;
  for (int trial = 0; trial < trials; ++trial) {
    Deviations deviations(rho, static_cast<uint64_t>(trial));
    FakeClock clock;
    const Step step = [&](PhaseMarker&) { clock.Advance(step_seconds * (1 + deviation * deviations.Next())); };
    const Samples samples = TakeSamples(clock, step, 0, {}, {.warmup_iters = 1});
    if (samples.stop == StopReason::kConverged || samples.stop == StopReason::kNarrow) {
      EXPECT_LE(Summarize(samples.seconds).ci, SampleOptions().target_ci);
    }
    const Interval interval = SeriesMedianInterval(samples.seconds);
    all.coverage += static_cast<double>(interval.low <= step_seconds && step_seconds <= interval.high) / trials;
    all.samples += static_cast<double>(samples.seconds.size()) / trials;
  }
  return all;
}

TEST_F(Coverage, UnderTheStoppingRule) {
  const struct {
    double rho;
    double step_seconds;
    double deviation;
    double least;
  } table[] = {
      {0, 20e-3, 0.02, 0.92},  {0, 1e-3, 0.05, 0.92},   {0.3, 1e-3, 0.02, 0.92}, {0.6, 1e-3, 0.01, 0.91},
      {0.6, 1e-4, 0.05, 0.91}, {0.9, 1e-3, 0.01, 0.87}, {0.9, 1e-3, 0.05, 0.87}, {0.9, 1e-4, 0.01, 0.9},
      {0.9, 1e-4, 0.05, 0.88}, {0.98, 1e-4, 0.05, 0.9},
  };
  for (const auto& [rho, step_seconds, deviation, least] : table) {
    EXPECT_GE(SampleAll(rho, step_seconds, deviation).coverage, least)
        << "rho " << rho << ", steps of " << step_seconds << " s, deviation " << deviation;
  }
}

// One of two levels a tenth apart, held for some samples; three of five times it is the lower.
class Levels {
 public:
  Levels(int64_t held, uint64_t seed) : held_(held), random_(seed), left_(Draw(0, held_)) {}

  double Next() {
    if (left_-- == 0) {
      left_ = held_ - 1;
      level_ = Draw(1, 5) <= 3 ? 1 : 1.1;
    }
    return level_ * (1 + 0.01 * normal_(random_));
  }

 private:
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  int64_t held_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  int64_t left_;
  double level_ = 1;
};

// Of the rows that say `converged`.
struct Converged {
  int rows = 0;
  double coverage = 1;
};

template <typename Make>
Converged ConvergedOf(const Make& make, double step_seconds, double max_time, int trials) {
  constexpr int64_t kMany = 400'000;
  std::vector<double> all;
  auto long_series = make(uint64_t{99});
  for (int64_t i = 0; i < kMany; ++i) all.push_back(step_seconds * long_series.Next());
  const double truth = Median(all);
  int rows = 0;
  int covered = 0;
  for (int trial = 0; trial < trials; ++trial) {
    auto series = make(static_cast<uint64_t>(trial));
    FakeClock clock;
    const Step step = [&](PhaseMarker&) { clock.Advance(step_seconds * series.Next()); };
    const Samples samples =
        TakeSamples(clock, step, 0, {},
                    {.warmup_iters = 1, .max_samples = 50'000, .max_time = max_time, .max_wall = 10 * max_time});
    if (samples.stop != StopReason::kConverged) continue;
    ++rows;
    const Interval interval = SeriesMedianInterval(samples.seconds);
    covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  return {rows, rows > 0 ? static_cast<double>(covered) / rows : 1};
}

// The median of levels lies between them, and many samples are of one.
TEST_F(Coverage, OfRowsThatConvergedHoldsWhereLevelsAreHeld) {
  const auto steady = [](uint64_t seed) { return Steady(0.9, seed); };
  for (const int64_t held : {20, 100}) {
    const auto levels = [held](uint64_t seed) { return Levels(held, seed); };
    EXPECT_GE(ConvergedOf(levels, 1e-3, 0.4, kTrials).coverage, 0.85) << held;
  }
  EXPECT_GE(ConvergedOf(steady, 5e-3, 0.4, kTrials).coverage, 0.85);
  // With time enough, rows that saw many levels converge.
  constexpr int kLongTrials = 60;
  const auto held_20 = [](uint64_t seed) { return Levels(20, seed); };
  for (const Converged& rows :
       {ConvergedOf(held_20, 1e-3, 10, kLongTrials), ConvergedOf(steady, 5e-3, 10, kLongTrials)}) {
    EXPECT_GE(rows.coverage, 0.85);
    EXPECT_GE(rows.rows, kLongTrials / 3);
  }
}

// Two checks that agree find 88 % (a standard deviation is 1 %).
TEST_F(Coverage, OfStrongCorrelationTakesMoreAgreement) {
  EXPECT_GE(SampleAll(0.9, 1e-3, 0.02, /*trials=*/1000).coverage, 0.9);
  EXPECT_LE(SampleAll(0.3, 1e-3, 0.02).samples, 1.05 * 100) << "weak correlation does not pay for it";
}

TEST_F(Coverage, CostsIndependentSamplesLittle) {
  // Means of 400 trials that the interval of independent values needed.
  EXPECT_LE(SampleAll(0, 5e-3, 0.02).samples, 1.06 * 32.7);
  EXPECT_LE(SampleAll(0, 1e-3, 0.05).samples, 1.06 * 176.3);
  for (const int count : {10, 25, 50, 100, 1000}) {
    double widths = 0;
    double independent_widths = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Deviations deviations(0, static_cast<uint64_t>(trial));
      std::vector<double> series;
      for (int i = 0; i < count; ++i) series.push_back(deviations.Next());
      const Interval interval = SeriesMedianInterval(series);
      const Interval independent = MedianInterval(series);
      EXPECT_LE(interval.low, independent.low);
      EXPECT_GE(interval.high, independent.high);
      widths += interval.high - interval.low;
      independent_widths += independent.high - independent.low;
    }
    EXPECT_LE(widths, (count < 50 ? 1.2 : 1.05) * independent_widths) << count << " samples";
  }
}

// ---- Single series

TEST(SeriesMedianInterval, OfBlocksThatFollowEachOtherSpansTheirMedians) {
  // A level that changes once leaves no two blocks independent, and a lone outlier does not widen the interval.
  std::vector<double> series;
  for (int i = 0; i < 64; ++i) series.push_back((i < 32 ? 100 : 110) + i % 2);
  series[7] = 1000;
  const Interval interval = SeriesMedianInterval(series);
  EXPECT_EQ(interval.low, 100.5);
  EXPECT_EQ(interval.high, 110.5);
}

TEST(SeriesMedianInterval, OfEqualOrAlternatingValuesIsThatOfIndependentOnes) {
  const std::vector<double> equal(50, 3.0);
  EXPECT_EQ(Summarize(equal).ci, 0);
  std::vector<double> alternating;
  for (int i = 0; i < 100; ++i) alternating.push_back(i % 2 == 0 ? i : 200 - i);
  const Interval interval = SeriesMedianInterval(alternating);
  EXPECT_EQ(interval.low, MedianInterval(alternating).low);
  EXPECT_EQ(interval.high, MedianInterval(alternating).high);
}

TEST(IndependentBlocks, AreAllValuesOrJoinedOnesOrNone) {
  std::vector<double> series(100, 3.0);
  EXPECT_EQ(IndependentBlocks(series), 100U) << "equal values";
  for (std::size_t i = 0; i < series.size(); ++i) series[i] = i < 50 ? 1 : 2;
  EXPECT_EQ(IndependentBlocks(series), 0U) << "one change of level";
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): fixed on purpose
  series.clear();
  for (int level = 0; level < 256; ++level) series.insert(series.end(), 4, static_cast<double>(random() & 1));
  EXPECT_LE(IndependentBlocks(series), 256U);
  EXPECT_GE(IndependentBlocks(series), 32U);
}

TEST(LagOneCorrelation, IsThatOfRanks) {
  // By numpy and scipy: r = rankdata(v) - rankdata(v).mean(); (r[1:] * r[:-1]).sum() / (r * r).sum()
  EXPECT_NEAR(LagOneCorrelation(std::vector<double>{3.1, 0.2, 7.7, 5.5, 1.4, 9.0, 2.6, 4.3}), -0.5178571428571429,
              1e-12);
  EXPECT_NEAR(LagOneCorrelation(std::vector<double>{1, 1, 2, 2, 2, 1, 5, 5}), 0.15333333333333332, 1e-12)
      << "with ties";
  std::vector<double> rising(100);
  std::iota(rising.begin(), rising.end(), 0.0);
  EXPECT_NEAR(LagOneCorrelation(rising), 0.97, 1e-3);
  rising[50] = 1e9;
  EXPECT_GT(LagOneCorrelation(rising), 0.9) << "an outlier does not hide it";
}

TEST(LagOneCorrelation, IsZeroWhereThereIsNone) {
  EXPECT_EQ(LagOneCorrelation({}), 0);
  EXPECT_EQ(LagOneCorrelation(std::vector<double>{3}), 0);
  EXPECT_EQ(LagOneCorrelation(std::vector<double>{3, 3, 3}), 0);
}

}  // namespace
}  // namespace roofbench::timing
