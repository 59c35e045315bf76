// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/series.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace roofbench::timing {
namespace {

constexpr double kNormalQuantile = 1.959964;  // 95 % of a standard normal distribution lie within it

// 95 % of Student's distribution lie within it: the expansion of Cornish and Fisher, within 0.2 % for the five degrees
// of freedom or more that it is used for.
double StudentQuantile(double degrees) {
  constexpr double kSquare = kNormalQuantile * kNormalQuantile;
  return kNormalQuantile *
         (1 + (kSquare + 1) / (4 * degrees) + ((5 * kSquare + 16) * kSquare + 3) / (96 * degrees * degrees) +
          (((3 * kSquare + 19) * kSquare + 17) * kSquare - 15) / (384 * degrees * degrees * degrees));
}

// Sums of deviations from their mean: of the squares, and of the products with the next one.
struct Deviations {
  double squares = 0;
  double products = 0;
};

Deviations DeviationsOf(std::span<const double> values) {
  const double mean = Mean(values);
  Deviations sums;
  double previous = 0;
  for (const double value : values) {
    const double deviation = value - mean;
    sums.squares += deviation * deviation;
    sums.products += deviation * previous;
    previous = deviation;
  }
  return sums;
}

struct Blocks {
  std::size_t size = 1;     // values in a block
  std::size_t count = 0;    // a remainder at the end of the series is in none
  bool independent = true;  // neighbors look so
  double inflation = 1;     // factor of the variance of the share of values below the median
};

// The smallest blocks, of 1, 2, 4, … values, that look independent of their neighbors, or else the largest.
Blocks JoinedBlocks(std::span<const double> series, double median) {
  // Standard errors of a correlation that one independent series in 20 exceeds; one in 6 where values are known to be
  // correlated.
  constexpr double kBound = 1.645;
  constexpr double kBoundOfBlocks = 1;
  std::vector<double> sums;  // per block, of +1 for each value above the median and -1 for each below
  sums.reserve(series.size());
  for (const double value : series) sums.push_back(value < median ? -1 : value > median ? 1 : 0);
  Blocks blocks = {.count = series.size()};
  double variance_of_one = 0;
  for (;;) {
    const auto count = static_cast<double>(blocks.count);
    const auto [squares, products] = DeviationsOf(sums);
    if (squares == 0) return blocks;
    const double variance = squares / (count - 1) / static_cast<double>(blocks.size);
    const double correlation = products / squares + 1 / count;  // its mean is -1 / count for independent blocks
    blocks.independent = correlation <= (blocks.size == 1 ? kBound : kBoundOfBlocks) / std::sqrt(count);
    if (blocks.size == 1) {
      variance_of_one = variance;
    } else {
      blocks.inflation = variance / variance_of_one * (1 + 2 * std::max(correlation, 0.0));
    }
    if (blocks.independent || blocks.count / 2 < static_cast<std::size_t>(kFewestForInterval)) return blocks;
    blocks.count /= 2;
    blocks.size *= 2;
    for (std::size_t i = 0; i < blocks.count; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    sums.resize(blocks.count);
  }
}

// The rank, from 0, of the lower end of an interval that blocks of more than one value give.
std::size_t LowRank(std::size_t values, const Blocks& blocks) {
  const auto n = static_cast<double>(values);
  const double quantile = StudentQuantile(static_cast<double>(blocks.count) - 1);
  return static_cast<std::size_t>(std::max(0.0, n / 2 - 0.5 - quantile * std::sqrt(n * blocks.inflation) / 2));
}

Interval Hull(const Interval& a, const Interval& b) {
  return {.low = std::min(a.low, b.low), .high = std::max(a.high, b.high)};
}

}  // namespace

Interval SeriesMedianInterval(std::span<const double> series) {
  Interval interval = MedianInterval(series);
  const Blocks blocks = JoinedBlocks(series, Median(series));
  if (!blocks.independent) {
    for (std::size_t block = 0; block < blocks.count; ++block) {
      const double median = Median(series.subspan(block * blocks.size, blocks.size));
      interval = Hull(interval, {.low = median, .high = median});
    }
  } else if (blocks.size > 1) {
    std::vector<double> values(series.begin(), series.end());
    const std::size_t low = LowRank(values.size(), blocks);
    const auto at = [&](std::size_t rank) {
      const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank);
      std::nth_element(values.begin(), nth, values.end());
      return *nth;
    };
    interval = Hull(interval, {.low = at(low), .high = at(values.size() - 1 - low)});
  }
  return interval;
}

std::size_t IndependentBlocks(std::span<const double> series) {
  const Blocks blocks = JoinedBlocks(series, Median(series));
  return blocks.independent ? blocks.count : 0;
}

double LagOneCorrelation(std::span<const double> series) {
  if (series.empty()) return 0;
  std::vector<std::size_t> order(series.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return series[a] < series[b]; });
  std::vector<double> ranks(series.size());
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && series[order[end]] == series[order[first]]) ++end;
    // Equal values share the mean of their ranks.
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
  }
  const Deviations sums = DeviationsOf(ranks);
  return sums.squares > 0 ? sums.products / sums.squares : 0;
}

}  // namespace roofbench::timing
