// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace roofbench::workload {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The text for these elements, compared in blocks of two; empty where they match.
std::string MismatchOf(const std::vector<double>& actual, const std::vector<double>& expected, double relative = 0.1) {
  Comparison comparison(relative, FiniteSquares(expected), static_cast<int64_t>(expected.size()));
  for (std::size_t i = 0; i < expected.size(); i += 2) {
    const std::size_t count = std::min<std::size_t>(2, expected.size() - i);
    comparison.Add(std::span(actual).subspan(i, count), std::span(expected).subspan(i, count));
  }
  const auto mismatch = comparison.Find("result");
  Match match(relative);
  for (std::size_t i = 0; i < expected.size(); i += 11) {
    const std::size_t count = std::min<std::size_t>(11, expected.size() - i);
    match.Add(std::span(actual).subspan(i, count), std::span(expected).subspan(i, count));
  }
  const bool finite = std::all_of(expected.begin(), expected.end(), [](double value) { return std::isfinite(value); });
  EXPECT_EQ(match.IsSure(), finite && !mismatch);
  return mismatch ? mismatch->text : "";
}

TEST(Comparison, FindsAWrongElementAnywhere) {
  constexpr std::size_t kElements = 100;
  for (std::size_t wrong = 0; wrong < kElements; ++wrong) {
    std::vector<double> expected(kElements, 1);
    expected[(wrong + 1) % kElements] = -1;
    for (const double value : {1.25, 0.7, kInfinity, std::nan("")}) {
      std::vector<double> actual = expected;
      actual[wrong] *= value;
      EXPECT_NE(MismatchOf(actual, expected), "") << wrong << " " << value;
    }
  }
}

TEST(Match, KnowsTheShareThatZerosWouldPassFor) {
  const auto share = [](double relative, double small, std::size_t block) {
    std::vector<double> expected(4096 + (std::size_t{61} * 100), 1);
    for (std::size_t i = 0; i < expected.size() * 3 / 4; ++i) expected[i] = i % 2 == 0 ? small : -small;
    Match match(relative);
    for (std::size_t i = 0; i < expected.size(); i += block) {
      const auto some = std::span(expected).subspan(i, std::min(block, expected.size() - i));
      match.Add(some, some);
    }
    return match.UnseenShare();
  };
  for (const std::size_t block : {1, 60, 61, 1000, 4096, 20000}) {
    EXPECT_NEAR(share(0.1, 0.01, block), 0.75, 61. / 10000) << block;
  }
  EXPECT_EQ(share(0.1, 0.1, 61), 0) << "the root mean square is a half";
  EXPECT_EQ(share(0.5, 0.24, 61), 0) << "each zero would pass, and all of them would not";
  EXPECT_EQ(share(0.1, 0, 61), 0) << "zeros are right";
  EXPECT_NEAR(share(1, 0.01, 61), 0.75, 61. / 10000) << "each zero would pass, and all of them would not";
  EXPECT_EQ(Match(0.1).UnseenShare(), 0);
}

TEST(Comparison, AllowsAShareOfTheElementAndOfTheRootMeanSquare) {
  // The root mean square of the reference is 1, so that an element of 1 may err by 0.2.
  EXPECT_EQ(MismatchOf({1, -1.19, 1}, {1, -1, 1}), "");
  EXPECT_EQ(MismatchOf({1, -1, 1.25}, {1, -1, 1}),
            "wrong result: off in 1 of 3 elements, the worst (element 2) is 1.25 where the reference has 1 (allowed: "
            "0.1 relative)");
}

TEST(Comparison, AllowsAnAbsoluteDifferenceAsOfRounding) {
  const auto text = [](double error, double absolute) {
    const std::vector<double> expected(64, 0), actual(64, error);
    Comparison comparison(0, 0, 64, absolute);
    comparison.Add(actual, expected);
    const auto mismatch = comparison.Find("result");
    Match match(0, absolute);
    match.Add(actual, expected);
    EXPECT_EQ(match.IsSure(), !mismatch);
    return mismatch ? mismatch->text : "";
  };
  EXPECT_EQ(text(0.3, 0.5), "");
  EXPECT_NE(text(0.4, 0.5).find("root mean square"), std::string::npos) << "rounding errs by less on the whole";
  EXPECT_NE(text(0.6, 0.5).find("(allowed: 0.5 and 0 relative)"), std::string::npos);
}

TEST(Comparison, NumbersWhoseSquaresOverflowAllowNoMoreThanOthers) {
  std::vector<double> expected(200, 1);
  expected[7] = -1e300;
  const auto text = [&](double huge, double other) {
    std::vector<double> actual(expected.size(), other);
    actual[7] = huge;
    Comparison comparison(1e-9, FiniteSquares(expected), static_cast<int64_t>(expected.size()));
    comparison.Add(actual, expected);
    const auto mismatch = comparison.Find("result");
    return mismatch ? mismatch->text : "";
  };
  EXPECT_EQ(text(-1e300 * (1 + 1e-10), 1), "");
  EXPECT_THAT(text(0, 1), testing::HasSubstr("is 0 where the reference has -1e+300"));
  EXPECT_THAT(text(-1.1e300, 1), testing::HasSubstr("off in 1 of 200 elements"));
}

TEST(Comparison, InfinitiesMustBeOfTheSameKind) {
  EXPECT_EQ(MismatchOf({kInfinity, std::nan(""), 1}, {kInfinity, std::nan(""), 1}), "");
  for (const double wrong : {-kInfinity, std::nan(""), 1.0}) EXPECT_NE(MismatchOf({wrong, 1}, {kInfinity, 1}), "");
  EXPECT_NE(MismatchOf({2, 5, std::nan("")}, {1, 1, 1}).find("(element 2) is nan"), std::string::npos)
      << "a NaN is the worst";
}

TEST(Comparison, FindsManySmallErrors) {
  const std::vector<double> reference(64, 1);
  EXPECT_EQ(MismatchOf(std::vector<double>(64, 1.04), reference), "");
  EXPECT_NE(MismatchOf(std::vector<double>(64, 1.06), reference).find("a root mean square of 0.06"), std::string::npos);
  EXPECT_EQ(MismatchOf(std::vector<double>(63, 1.06), std::vector<double>(63, 1)), "") << "too few to judge";
  EXPECT_EQ(MismatchOf(std::vector<double>(64, 1.24), reference, 1), "");
  EXPECT_NE(MismatchOf(std::vector<double>(64, 1.26), reference, 1), "") << "a quarter of all at most";
}

}  // namespace
}  // namespace roofbench::workload
