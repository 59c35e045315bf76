// SPDX-License-Identifier: Apache-2.0
#include "lib/suite/check.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/served_memory.h"

namespace roofbench {
namespace {

using testing::HasSubstr;
using workload::Dtype;
using workload::RelativeTolerance;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RelativeTolerance, FollowsFromTheFormatAndTheSum) {
  // 2 · 2^-7 and 4 · 2^-23 · sqrt(4096).
  EXPECT_DOUBLE_EQ(RelativeTolerance({.dtype = Dtype::kBf16, .reduction = 4096}), 0x1p-6 + 4 * 0x1p-23 * 64);
  EXPECT_DOUBLE_EQ(RelativeTolerance({.dtype = Dtype::kBf16, .reduction = 0, .roundings = 9, .amplification = 2}),
                   6 * 0x1p-6);
  EXPECT_EQ(RelativeTolerance({.dtype = Dtype::kInt8, .reduction = 4096}), 0);
}

TEST(CompareTensors, FindsOneWrongElementAmongMany) {
  const at::Tensor reference = at::randn({100, 100}, at::kDouble);
  at::Tensor result = reference.to(at::kFloat);
  EXPECT_TRUE(CompareTensors(result, reference, {}, "y").ok());
  result[57][3].add_(1e-3);
  const absl::Status status = CompareTensors(result, reference, {}, "y");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("wrong y: off in 1 of 10000"), HasSubstr("element 5703")));
}

TEST(CompareTensors, AllowsTheRoundingOfTheFormat) {
  const at::Tensor reference = at::randn({1000}, at::kDouble);
  EXPECT_TRUE(CompareTensors(reference.to(at::kBFloat16), reference, {.dtype = Dtype::kBf16}, "y").ok());
  EXPECT_FALSE(CompareTensors(reference.to(at::kBFloat16), reference, {.dtype = Dtype::kFp32}, "y").ok());
}

TEST(CompareTensors, SumsWithoutTheirLengthGetAdvice) {
  const at::Tensor terms = at::randn({100, 4096});
  at::Tensor result = terms.select(1, 0).clone();
  for (int64_t i = 1; i < terms.size(1); ++i) result.add_(terms.select(1, i));  // one after the other
  const at::Tensor reference = terms.sum(1, /*keepdim=*/false, at::kDouble);
  const auto message = [&](const at::Tensor& actual, const Tolerance& tolerance) {
    return std::string(CompareTensors(actual, reference, tolerance, "y").message());
  };
  EXPECT_THAT(message(result, {}), HasSubstr("a sum of n terms needs Tolerance{.reduction = n} in .Within"));
  EXPECT_EQ(message(result, {.reduction = 4096}), "");
  EXPECT_THAT(message(result.mul(1.5), {}), testing::AllOf(HasSubstr("wrong y"), testing::Not(HasSubstr("Within"))));
}

TEST(CompareTensors, FindsASmallErrorThatIsEverywhere) {
  const at::Tensor reference = at::randn({1000}, at::kDouble);
  const Tolerance bf16{.dtype = Dtype::kBf16};
  // 1.2 %: below the elementwise bound of 1.6 % of (|reference| + rms), above half of it in the root mean square.
  const absl::Status status = CompareTensors(reference.mul(1.012), reference, bf16, "y");
  EXPECT_THAT(std::string(status.message()), HasSubstr("root mean square"));
}

TEST(CompareTensors, IntegersMustBeEqual) {
  const at::Tensor reference = at::tensor({1'000'000'000, -5, 0}, at::kLong);
  const Tolerance exact{.dtype = Dtype::kInt8};
  EXPECT_TRUE(CompareTensors(reference.to(at::kInt), reference, exact, "y").ok());
  EXPECT_FALSE(CompareTensors(reference.add(1), reference, exact, "y").ok());
  // Neighbors that double precision takes for equal.
  const at::Tensor large = at::tensor({int64_t{1} << 62}, at::kLong);
  EXPECT_THAT(std::string(CompareTensors(large.add(1), large, exact, "y").message()),
              HasSubstr("wrong y: off in 1 of 1"));
}

TEST(CompareTensors, RoundedIntegersAreNextToTheirReference) {
  const at::Tensor values = at::randn({100'000}, at::kDouble).mul_(20);
  const at::Tensor exact = values.round();
  const Tolerance int8{.dtype = Dtype::kInt8};
  EXPECT_TRUE(CompareTensors(exact.to(at::kChar), values, int8, "q").ok());
  at::Tensor tie = values.clone();
  tie[7] = 2.5 + 1e-7;
  for (const int64_t side : {2, 3}) {
    at::Tensor result = tie.round().to(at::kChar);
    result[7] = side;
    EXPECT_TRUE(CompareTensors(result, tie, int8, "q").ok()) << side;
  }
  at::Tensor off = exact.to(at::kChar);
  off[7].add_(1);
  EXPECT_THAT(std::string(CompareTensors(off, values, int8, "q").message()), HasSubstr("wrong q: off in 1 of 100000"));
  // Each is next to its reference, but the scale is wrong by two percent of it.
  EXPECT_FALSE(CompareTensors(values.mul(1.02).round().to(at::kChar), values, int8, "q").ok());
}

TEST(CompareTensors, AllowsAnAbsoluteDifference) {
  const at::Tensor reference = at::zeros({1000}, at::kDouble);
  const at::Tensor result = reference.to(at::kFloat).add_(1e-3);
  EXPECT_FALSE(CompareTensors(result, reference, {}, "y").ok());
  EXPECT_TRUE(CompareTensors(result, reference, {.absolute = 2e-3}, "y").ok());
  EXPECT_FALSE(CompareTensors(result, reference, {.absolute = 1.5e-3}, "y").ok()) << "all of them, and not at random";
}

TEST(CheckCase, EachResultHasItsTolerance) {
  const at::Tensor exact = at::randn({1000}, at::kDouble);
  const at::Tensor near = exact.to(at::kBFloat16);
  Case built{.result =
                 [=] {
                   return std::vector{exact.to(at::kFloat), near};
                 },
             .reference =
                 [=] {
                   return std::vector{exact, exact};
                 }};
  EXPECT_FALSE(CheckCase(built).ok());
  built.tolerances = {{.dtype = Dtype::kFp32}, {.dtype = Dtype::kBf16}};
  EXPECT_TRUE(CheckCase(built).ok());
  std::swap(built.tolerances[0], built.tolerances[1]);
  EXPECT_FALSE(CheckCase(built).ok());
}

TEST(SomeRows, FindsARowThatIsOff) {
  std::mt19937_64 random(1);
  const at::Tensor x = at::randn({16, 64}, at::kDouble);
  at::Tensor y = x.to(at::kFloat);
  Case built{.result = [&] { return std::vector{y}; },
             .reference_rows = [&](const RowRange& some) { return some.Of(x); }};
  EXPECT_TRUE(SomeRows(built, random).Check().ok());
  y.mul_(1.1);
  EXPECT_THAT(std::string(SomeRows(built, random).Check().message()), HasSubstr("wrong rows from"));
  y = x.to(at::kFloat);
  built.reference_rows = nullptr;
  built.reference = [&] { return std::vector{x}; };
  Invalidate(WholeResult(built));
  EXPECT_THAT(std::string(SomeRows(built, random).Check().message()), HasSubstr("a NaN among"));
}

TEST(SomeRows, OfALargeResultAreOverwrittenAlone) {
  std::mt19937_64 random(1);
  for (const at::ScalarType type : {at::kFloat, at::kLong}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{1 << 23}, {1 << 10, 1 << 13}}) {
      const at::Tensor y = at::zeros(shape, type);
      const Case built{.result = [&] { return std::vector{y}; },
                       .reference_rows = [&](const RowRange& some) { return at::zeros_like(some.Of(y)); }};
      const SomeRows rows(built, random);
      EXPECT_TRUE(rows.Check().ok());
      rows.Invalidate();
      EXPECT_FALSE(rows.Check().ok()) << shape.size();
      const int64_t changed = y.ne(0).sum().item<int64_t>();
      EXPECT_GT(changed, 0);
      EXPECT_LT(changed, y.numel() / 100);
    }
  }
}

// All draws are the same row.
TEST(SomeRows, OfALargeResultAreInvertedOnce) {
  std::mt19937_64 random(1);
  const at::Tensor y = at::zeros({1, 1 << 25}, at::kBool);
  const Case built{.result = [&] { return std::vector{y}; }};
  SomeRows(built, random).Invalidate();
  EXPECT_TRUE(y.all().item<bool>());
}

TEST(CheckPart, LooksAtRowsOrSamplesWithoutTheSums) {
  std::mt19937_64 random(1);
  const at::Tensor x = at::randn({64, 64}, at::kDouble);
  at::Tensor y = x.to(at::kFloat);
  Case built{.result = [&] { return std::vector{y.narrow(0, 0, 8)}; },
             .reference = [&] { return std::vector{x.narrow(0, 0, 8)}; }};
  EXPECT_FALSE(CanCheckPart(built));
  built.whole = [&] { return std::vector{y}; };
  built.row_sums = [] { return ADD_FAILURE(), std::vector<at::Tensor>(); };
  EXPECT_TRUE(CanCheckPart(built));
  EXPECT_TRUE(CheckPart(built, random).ok());
  y[7].mul_(1.1);
  EXPECT_FALSE(CheckPart(built, random).ok());
}

TEST(CompareTensors, InfinityAndNanMustBeOfTheSameKind) {
  const at::Tensor reference = at::tensor({1.0F, kInfinity, kNan, -kInfinity});
  EXPECT_TRUE(CompareTensors(reference.clone(), reference, {}, "y").ok());
  EXPECT_FALSE(CompareTensors(at::tensor({kNan, kInfinity, kNan, -kInfinity}), reference, {}, "y").ok());
  EXPECT_FALSE(CompareTensors(at::tensor({1.0F, -kInfinity, kNan, -kInfinity}), reference, {}, "y").ok());
  EXPECT_FALSE(CompareTensors(at::tensor({1.0F, kInfinity, 0.0F, -kInfinity}), reference, {}, "y").ok());
  EXPECT_FALSE(CompareTensors(at::tensor({kInfinity, kInfinity, kNan, -kInfinity}), reference, {}, "y").ok());
}

TEST(CompareTensors, ShapesMustAgree) {
  EXPECT_THAT(std::string(CompareTensors(at::randn({2, 3}), at::randn({3, 2}), {}, "y").message()),
              HasSubstr("shape [2,3] where the reference has [3,2]"));
}

TEST(CheckCase, TamperingIsFound) {
  const at::Tensor y = at::randn({8});
  const Case built{.result = [=] { return std::vector{y.clone()}; }, .reference = [=] { return std::vector{y}; }};
  EXPECT_TRUE(CheckCase(built).ok());
  EXPECT_FALSE(CheckCase(built, {.result = [](at::Tensor& result) { result[0].add_(1); }}).ok());
  EXPECT_FALSE(CheckCase(Case{.result = [] { return std::vector<at::Tensor>(); },
                              .reference = [] { return std::vector<at::Tensor>(); }})
                   .ok());
}

// A product of which two of 128 rows are compared one by one.
Case SampledProduct(const at::Tensor& a, const at::Tensor& b, const at::Tensor& y) {
  return {.result = [=] { return std::vector{y.narrow(0, 0, 2).clone()}; },
          .reference = [=] { return std::vector{at::mm(a.narrow(0, 0, 2).to(at::kDouble), b.to(at::kDouble))}; },
          .whole = [=] { return std::vector{y}; },
          .row_sums = [=] { return std::vector{at::mv(a.to(at::kDouble), b.sum(1, false, at::kDouble))}; },
          .tolerance = {.dtype = Dtype::kBf16, .reduction = 64}};
}

TEST(CheckCase, AResultThatIsSuppliedWhenItIsReadIsRefused) {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  void* const pages = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const at::Tensor y = at::from_blob(pages, {kBytes / sizeof(float)}, at::kFloat).fill_(1);
  const Case built = {.result = [=] { return std::vector{y}; }, .reference = [=] { return std::vector{y.clone()}; }};
  EXPECT_TRUE(CheckCase(built).ok());
  {
    const ServedMemory served(pages, kBytes);
    if (!served.is_served()) GTEST_SKIP() << "userfaultfd is not permitted here";
    EXPECT_THAT(std::string(CheckCase(built).message()), testing::HasSubstr("filled when it is read (userfaultfd)"));
  }
  munmap(pages, kBytes);
}

TEST(CheckCase, WhatIsNotSampledIsChecked) {
  const at::Tensor a = at::randn({128, 64}).to(at::kBFloat16);
  const at::Tensor b = at::rand({64, 256}).to(at::kBFloat16);
  // Rows that add up to 64 x 256 / 2 and to zero: of random rows, one in a hundred would have nearly the same sum.
  a[77].fill_(1);
  a[78].zero_();
  const at::Tensor y = at::mm(a, b);
  EXPECT_TRUE(CheckCase(SampledProduct(a, b, y)).ok());

  const at::Tensor with_nan = y.clone();
  with_nan[100][7].fill_(kNan);
  EXPECT_THAT(std::string(CheckCase(SampledProduct(a, b, with_nan)).message()),
              HasSubstr("a NaN or an infinity in 1 of 128 rows, the first in row 100"));
  // Infinities of both signs must not add up to zero.
  const at::Tensor with_infinities = y.clone();
  with_infinities[100][7].fill_(kInfinity);
  with_infinities[100][8].fill_(-kInfinity);
  EXPECT_FALSE(CheckCase(SampledProduct(a, b, with_infinities)).ok());

  const at::Tensor stale = y.clone();
  stale[77].copy_(y[78]);
  EXPECT_THAT(std::string(CheckCase(SampledProduct(a, b, stale)).message()),
              HasSubstr("1 of 128 rows do not add up, the worst (row 77)"));
}

// A result that is off by `error` everywhere, of a reference that rounding takes off by `strays`.
Case Strayed(double error, double strays, int* asked) {
  const at::Tensor exact = at::randn({256}, at::kDouble);
  const at::Tensor signs = at::randn({256}, at::kDouble).sign();
  return {.result = [=] { return std::vector{exact + error * signs}; },
          .reference = [=] { return std::vector{exact}; },
          .rounded =
              [=] {
                ++*asked;
                return std::vector{exact - strays * signs};
              },
          .tolerance = {.dtype = Dtype::kBf16}};
}

TEST(CheckCase, AResultMayStrayAsRoundingOfTheReferenceDoes) {
  int asked = 0;
  EXPECT_TRUE(CheckCase(Strayed(1e-4, 1e-3, &asked)).ok());
  EXPECT_EQ(asked, 0) << "a result within the tolerance needs no rounded reference";
  EXPECT_TRUE(CheckCase(Strayed(0.1, 0.1, &asked)).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(CheckCase(Strayed(0.1, 0.01, &asked)).ok()) << "ten times as far";
  EXPECT_FALSE(CheckCase(Strayed(1.5, 1.5, &asked)).ok()) << "where anything would do, nothing is right";
  Case alone = Strayed(0.1, 0.1, &asked);
  alone.rounded = nullptr;
  EXPECT_FALSE(CheckCase(alone).ok());
}

TEST(CheckRowSums, OfAnyTypeShapeAndStrideAreThoseOfDoublePrecision) {
  for (const at::ScalarType type :
       {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kInt, at::kLong, at::kChar}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
             {1}, {7}, {100'003}, {3, 0}, {0, 3}, {5, 17}, {2, 3, 40'000}, {1 << 10, 64}}) {
      const at::Tensor x = at::randn(shape, at::kDouble).mul_(20).to(type);
      for (const at::Tensor& one : {x, x.dim() > 1 ? x.transpose(0, -1) : x.expand({2, -1})}) {
        EXPECT_TRUE(at::allclose(ExactRowSums(one), one.to(at::kDouble).sum(-1).reshape({-1}), 1e-9, 1e-6))
            << at::toString(type) << " " << testing::PrintToString(shape);
        EXPECT_TRUE(CheckRowSums(one, ExactRowSums(one), {}, "y").ok());
      }
    }
  }
}

TEST(CheckRowSums, NumbersWhoseSquaresOverflowAllowNoMoreThanOthers) {
  const Tolerance tolerance = {.dtype = Dtype::kFp64};
  const at::Tensor y = at::tensor({1e200, 1.0, 2.0, 3.0}, at::kDouble).reshape({2, 2});
  EXPECT_TRUE(CheckRowSums(y, ExactRowSums(y), tolerance, "y").ok());
  EXPECT_FALSE(CheckRowSums(y, at::tensor({0.0, 5.0}, at::kDouble), tolerance, "y").ok());
  EXPECT_FALSE(CheckRowSums(y, at::tensor({1e200, 6.0}, at::kDouble), tolerance, "y").ok());
  EXPECT_FALSE(CheckRowSums(y[0], at::tensor({0.0}, at::kDouble), tolerance, "y").ok());
}

TEST(CheckRowSums, IntegersMustAddUpExactly) {
  const at::Tensor y = at::tensor({1, 2, 3, 4}, at::kInt).reshape({2, 2});
  const Tolerance exact{.dtype = Dtype::kInt8};
  EXPECT_TRUE(CheckRowSums(y, at::tensor({3.0, 7.0}), exact, "y").ok());
  EXPECT_FALSE(CheckRowSums(y, at::tensor({3.0, 8.0}), exact, "y").ok());
}

}  // namespace
}  // namespace roofbench
