// SPDX-License-Identifier: Apache-2.0
#include "lib/timing/running_median.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "lib/timing/statistics.h"

namespace roofbench::timing {
namespace {

TEST(RunningMedian, AgreesWithTheSummaryOfAllValuesAfterEachChunk) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): fixed on purpose
  RunningMedian running;
  std::vector<double> all;
  for (const std::size_t size : {1, 1, 3, 40, 2, 0, 200, 7, 300}) {
    std::vector<double> chunk(size);
    for (double& value : chunk) value = 1 + static_cast<double>(random() % 50);  // with many ties
    all.insert(all.end(), chunk.begin(), chunk.end());
    std::sort(chunk.begin(), chunk.end());
    running.Add(chunk);
    EXPECT_DOUBLE_EQ(running.RelativeHalfWidth(), Summarize(all).ci) << all.size() << " values";
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

}  // namespace
}  // namespace roofbench::timing
