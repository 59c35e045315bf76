// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/comparison.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <numeric>

#include "lib/workload/tolerance.h"

namespace roofbench::workload {
namespace {

template <typename... Values>
std::string Text(const char* format, Values... values) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), '\0');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

double Rms(double squares, int64_t elements) {
  return elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0;
}

// Rounding to multiples has the root mean square of uniform errors; a tenth more for those of few elements.
double AllowedRms(double relative, double part, double rms, double absolute) {
  return std::min(relative * part, kMostRms) * rms + 1.1 / std::sqrt(3.0) * absolute;
}

// Of a double.
constexpr int kMantissaBits = 52;
constexpr uint64_t kInfiniteExponent = 2047;

// Squares of larger numbers overflow in sums: such a reference and its error count as parts of this.
constexpr double kLargest = 1e140;
double ToSquare(double expected) { return std::abs(expected) > kLargest ? kLargest / std::abs(expected) : 1; }

}  // namespace

void Match::Add(std::span<const double> actual, std::span<const double> expected) {
  // As many sums as a compiler needs for vectors: it must not change the order of one.
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> squares = {}, error_squares = {}, excess = {};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const double error = std::abs(actual[i] - expected[i]);
    const double beyond = error - relative_ * std::abs(expected[i]);
    squares[lane] += expected[i] * expected[i];
    error_squares[lane] += error * error;
    excess[lane] = beyond > excess[lane] ? beyond : excess[lane];
  };
  const std::size_t whole = expected.size() / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (std::size_t i = whole; i < expected.size(); ++i) add(i, i - whole);
  squares_ = std::accumulate(squares.begin(), squares.end(), squares_);
  error_squares_ = std::accumulate(error_squares.begin(), error_squares.end(), error_squares_);
  for (const double beyond : excess) excess_ = std::max(excess_, beyond);
  constexpr int64_t kAll = 4096;
  constexpr int64_t kEvery = 61;
  const auto end = elements_ + static_cast<int64_t>(expected.size());
  const auto count = [&](int64_t index, int64_t times) {
    const double value = expected[static_cast<std::size_t>(index - elements_)];
    exponents_[std::bit_cast<uint64_t>(value) >> kMantissaBits & kInfiniteExponent] += times;
  };
  for (int64_t i = elements_; i < std::min(end, kAll); ++i) count(i, 1);
  const int64_t beyond = std::max(elements_, kAll) - kAll;
  for (int64_t i = kAll + (beyond + kEvery - 1) / kEvery * kEvery; i < end; i += kEvery) count(i, kEvery);
  elements_ = end;
}

double Match::UnseenShare() const {
  const double rms = Rms(squares_, elements_);
  if (!std::isfinite(squares_)) return 0;
  const double largest = relative_ < 1 ? relative_ / (1 - relative_) * rms : std::numeric_limits<double>::infinity();
  const double allowed = AllowedRms(relative_, rms_part_, rms, 0);
  double left =
      allowed * allowed * static_cast<double>(std::accumulate(exponents_.begin(), exponents_.end(), int64_t{0}));
  int64_t all = 0;
  int64_t unseen = 0;
  for (uint64_t exponent = 1; exponent < kInfiniteExponent; ++exponent) {  // 0 is that of 0
    const int64_t count = exponents_[exponent];
    const double bound = std::bit_cast<double>((exponent + 1) << kMantissaBits);
    all += count;
    if (bound <= largest && left >= 0) left -= static_cast<double>(count) * bound * bound;
    if (bound <= largest && left >= 0) unseen += count;
  }
  return all > 0 ? static_cast<double>(unseen) / static_cast<double>(all) : 0;
}

bool Match::IsSure() const {
  if (!std::isfinite(squares_) || !std::isfinite(error_squares_)) return false;
  const double rms = Rms(squares_, elements_);
  return excess_ <= absolute_ + relative_ * rms &&
         (static_cast<double>(elements_) < kFewestForRms ||
          Rms(error_squares_, elements_) <= AllowedRms(relative_, rms_part_, rms, absolute_));
}

double FiniteSquares(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) {
    const double part = std::isfinite(value) ? value * ToSquare(value) : 0;
    squares += part * part;
  }
  return squares;
}

Comparison::Comparison(double relative, double squares, int64_t elements, double absolute, double rms_part)
    : relative_(relative),
      absolute_(absolute),
      rms_part_(rms_part),
      rms_(Rms(squares, elements)),
      elements_(elements) {}

void Comparison::Add(std::span<const double> actual, std::span<const double> expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    const double bound = absolute_ + relative_ * (std::abs(expected[i]) + rms_);
    const bool finite = std::isfinite(expected[i]);
    if (finite) squares_ += error * ToSquare(expected[i]) * (error * ToSquare(expected[i]));
    const bool same_kind = expected[i] == actual[i] || (std::isnan(expected[i]) && std::isnan(actual[i]));
    if (finite ? error <= bound : same_kind) continue;
    ++wrong_;
    // Every wrong element has a larger excess than every correct one; an infinity or a NaN has the largest.
    constexpr double kInfinite = 1e300;
    const double excess = std::isfinite(error - bound) ? std::max(0.0, error - bound) : kInfinite;
    if (excess <= worst_excess_) continue;
    worst_excess_ = excess;
    worst_ = added_ + static_cast<int64_t>(i);
    worst_actual_ = actual[i];
    worst_expected_ = expected[i];
  }
  added_ += static_cast<int64_t>(expected.size());
}

std::optional<Comparison::Mismatch> Comparison::Find(const std::string& what) const {
  if (wrong_ > 0) {
    return Mismatch{Text("wrong %s: off in %s of %s elements, the worst (element %s) is %g where the reference "
                         "has %g (allowed: %s%.2g relative)",
                         what.c_str(), std::to_string(wrong_).c_str(), std::to_string(elements_).c_str(),
                         std::to_string(worst_).c_str(), worst_actual_, worst_expected_,
                         absolute_ > 0 ? Text("%.2g and ", absolute_).c_str() : "", relative_),
                    std::abs(worst_actual_ - worst_expected_) / (std::abs(worst_expected_) + rms_)};
  }
  // Detects errors that are small in each element but systematic, such as those of a slightly wrong formula.
  const double error_rms = Rms(squares_, elements_);
  const double allowed = AllowedRms(relative_, rms_part_, rms_, absolute_);
  if (static_cast<double>(elements_) < kFewestForRms || error_rms <= allowed) return std::nullopt;
  return Mismatch{Text("wrong %s: its errors have a root mean square of %.2g of the reference's (allowed: %.2g)",
                       what.c_str(), error_rms / rms_, allowed / rms_),
                  error_rms / rms_};
}

}  // namespace roofbench::workload
