// SPDX-License-Identifier: Apache-2.0
// Statistics of values in the order of measurement, of which neighbors may be correlated, as times are.
#pragma once

#include <cstddef>
#include <span>

#include "lib/timing/statistics.h"

namespace roofbench::timing {

// 95 % confidence interval of the median: the ranks of MedianInterval, moved apart by the square root of the factor by
// which correlation raises the variance of the share of values below the median. Blocking (Flyvbjerg & Petersen 1989)
// finds that factor: blocks are joined in pairs until neighbors look independent. If that leaves fewer than six, the
// interval is the range of the blocks' medians instead. It is never narrower than MedianInterval. Linear in the values.
Interval SeriesMedianInterval(std::span<const double> series);

// How many blocks of that series look independent of each other; 0 where even the largest do not.
std::size_t IndependentBlocks(std::span<const double> series);

// Rank correlation (Spearman's) of each value with the next; outliers do not hide it, as they hide Pearson's. 0 for
// fewer than two values, and if all are equal.
double LagOneCorrelation(std::span<const double> series);

}  // namespace roofbench::timing
