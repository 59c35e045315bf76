// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/gemv.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <type_traits>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/huge_pages.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"

namespace roofbench::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A weight with guard memory after it. Experts follow each other: `experts` times n rows.
template <typename Weight>
struct Matrix;

template <typename T>
struct Matrix<PlainWeight<T>> {
  Matrix(int64_t experts, int64_t n, int64_t k) : values(Normal<T>(experts * n * k)), weight{values.data(), n, k} {}
  double At(int64_t expert, int64_t row, int64_t column) const {
    return ToFloat(Expert(weight, expert).data[row * weight.k + column]);
  }
  std::vector<T> values;
  PlainWeight<T> weight;
};

template <>
struct Matrix<Int8Weight> {
  Matrix(int64_t experts, int64_t n, int64_t k)
      : values(static_cast<std::size_t>(experts * n * k)), scales(static_cast<std::size_t>(experts * n)) {
    // An offset, so that a sum over the weights alone is not zero.
    const std::vector<float> source = Normal<float>(experts * n * k, 0.25);
    QuantizeInt8(source.data(), k, values.data(), scales.data(), {0, experts * n});
    weight = {.data = values.data(), .scales = scales.data(), .n = n, .k = k};
  }
  double At(int64_t expert, int64_t row, int64_t column) const {
    return Dequantize(Expert(weight, expert), row, column);
  }
  std::vector<int8_t> values;
  std::vector<float> scales;
  Int8Weight weight;
};

template <>
struct Matrix<Int4Weight> {
  // k is rounded up to a whole group.
  Matrix(int64_t experts, int64_t n, int64_t k, int64_t group = 32) {
    k = (k + group - 1) / group * group;
    const auto bytes = static_cast<std::size_t>(Int4Bytes(n, k, group));
    values.resize(static_cast<std::size_t>(experts) * bytes);
    for (int64_t expert = 0; expert < experts; ++expert) {
      const std::vector<float> source = Normal<float>(n * k, 0.25, 1, static_cast<uint32_t>(expert));
      std::vector<uint8_t> q(source.size());
      std::vector<Bf16> scales_zeros(static_cast<std::size_t>(2 * n * k / group));
      QuantizeInt4(source.data(), k, group, q.data(), scales_zeros.data(), {0, n});
      PackInt4(q.data(), scales_zeros.data(), n, k, group, values.data() + static_cast<std::size_t>(expert) * bytes,
               {0, Int4Tiles(n)});
    }
    weight = {.data = values.data(), .n = n, .k = k, .group = group};
  }
  double At(int64_t expert, int64_t row, int64_t column) const {
    return Dequantize(Expert(weight, expert), row, column);
  }
  std::vector<std::byte> values;
  Int4Weight weight;
};

template <typename WeightType, typename XType, typename YType>
struct Types {
  using Weight = WeightType;
  using X = XType;
  using Y = YType;
};

template <typename T>
class GemvTest : public testing::Test {
 protected:
  using Weight = typename T::Weight;
  using X = typename T::X;
  using Y = typename T::Y;
  static constexpr bool kQuantized = std::is_same_v<Weight, Int8Weight> || std::is_same_v<Weight, Int4Weight>;
  static constexpr double kSumError = kQuantized ? 0x1p-13 : 0x1p-19;

  static void ExpectRight(const Matrix<Weight>& matrix, int64_t expert, const X* x, const Y* y,
                          const std::string& where) {
    const int64_t k = matrix.weight.k;
    for (int64_t row = 0; row < matrix.weight.n; ++row) {
      double expected = 0;
      double terms = 1e-30;
      for (int64_t i = 0; i < k; ++i) {
        const double product = matrix.At(expert, row, i) * ToFloat(x[i]);
        expected += product;
        terms += product * product;
      }
      // fp32 sums wander like the root of the sum of squares; fixed point adds 2^-16 of the largest activation to each.
      ExpectClose(y[row], expected, kRounding<Y> + kSumError, std::isfinite(terms) ? std::sqrt(terms) : 1,
                  where + " row " + std::to_string(row));
      if (testing::Test::HasFatalFailure()) return;
    }
  }

  static void RunAndExpectRight(const Matrix<Weight>& matrix, const std::vector<X>& x, int64_t m) {
    const int64_t n = matrix.weight.n;
    const int64_t k = matrix.weight.k;
    std::vector<Y> y(static_cast<std::size_t>(m * n) + 1, FromDouble<Y>(123));
    kernels::Run(Gemv<Weight, X, Y>{.weight = matrix.weight, .x = x.data(), .y = y.data(), .m = m}, ThreadPool(2));
    EXPECT_EQ(ToFloat(y.back()), 123) << "written beyond the result";
    for (int64_t i = 0; i < m; ++i) {
      ExpectRight(matrix, 0, x.data() + i * k, y.data() + i * n,
                  "n " + std::to_string(n) + " k " + std::to_string(k) + " vector " + std::to_string(i));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
};

using AllTypes =
    testing::Types<Types<Fp32Weight, float, float>, Types<Bf16Weight, Bf16, Bf16>, Types<Bf16Weight, Bf16, float>,
                   Types<Int8Weight, Bf16, Bf16>, Types<Int8Weight, Bf16, float>, Types<Int8Weight, float, float>,
                   Types<Int4Weight, Bf16, Bf16>, Types<Int4Weight, Bf16, float>, Types<Int4Weight, float, float>>;
TYPED_TEST_SUITE(GemvTest, AllTypes);

TYPED_TEST(GemvTest, AgreesWithFloat64AtOddSizes) {
  for (const int64_t k : {1, 31, 33, 64, 100, 257, 1023, 1024, 1057, 1376}) {
    for (const int64_t n : {1, 19}) {
      const Matrix<typename TypeParam::Weight> matrix(1, n, k);
      const auto x = Normal<typename TypeParam::X>(matrix.weight.k, 0.5);
      OnEveryIsa([&] { this->RunAndExpectRight(matrix, x, 1); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TYPED_TEST(GemvTest, AMatrixWithoutRowsOrColumnsIsNoCase) {
  OnEveryIsa([&] {
    this->RunAndExpectRight(Matrix<typename TypeParam::Weight>(1, 0, 64), Normal<typename TypeParam::X>(64), 1);
    // An empty sum is 0.
    this->RunAndExpectRight(Matrix<typename TypeParam::Weight>(1, 5, 0), {}, 1);
  });
}

TYPED_TEST(GemvTest, SeveralVectorsShareTheWeights) {
  const auto expect_right = [&](int64_t n, int64_t k, std::initializer_list<int64_t> counts) {
    const Matrix<typename TypeParam::Weight> matrix(1, n, k);
    for (const int64_t m : counts) {
      const auto x = Normal<typename TypeParam::X>(m * matrix.weight.k);
      OnEveryIsa([&] { this->RunAndExpectRight(matrix, x, m); });
    }
  };
  // Columns that leave a partial register.
  expect_right(35, 96, {2, 3, 4, 5, 6, 7, 8, 13});
  expect_right(7, 33, {2, 5, 8});
  // Rows for more than one chunk of them.
  expect_right(150, 1057, {7});
}

TYPED_TEST(GemvTest, AVectorHasTheSameResultAmongOthers) {
  using Out = typename TypeParam::Y;
  constexpr int64_t kVectors = 7;
  constexpr int64_t kRows = 150;
  const Matrix<typename TypeParam::Weight> matrix(1, kRows, 1000);
  const auto x = Normal<typename TypeParam::X>(kVectors * matrix.weight.k);
  OnEveryIsa([&] {
    std::vector<Out> together(kVectors * kRows);
    std::vector<Out> alone(kRows);
    Gemv<typename TypeParam::Weight, typename TypeParam::X, Out> work{matrix.weight, x.data(), together.data(),
                                                                      kVectors};
    kernels::Run(work, SerialFor());
    for (std::size_t i = 0; i < kVectors; ++i) {
      work = {matrix.weight, x.data() + i * static_cast<std::size_t>(matrix.weight.k), alone.data(), 1};
      kernels::Run(work, SerialFor());
      for (std::size_t row = 0; row < kRows; ++row) {
        ASSERT_EQ(ToFloat(together[i * kRows + row]), ToFloat(alone[row])) << "vector " << i << " row " << row;
      }
    }
  });
}

TYPED_TEST(GemvTest, RowsAloneAreThoseOfTheWhole) {
  using Out = typename TypeParam::Y;
  const Matrix<typename TypeParam::Weight> matrix(1, 50, 160);
  const auto x = Normal<typename TypeParam::X>(matrix.weight.k);
  OnEveryIsa([&] {
    std::vector<Out> whole(50);
    std::vector<Out> part(50, FromDouble<Out>(7));
    Gemv<typename TypeParam::Weight, typename TypeParam::X, Out> work{matrix.weight, x.data(), whole.data(), 1};
    kernels::Run(work, SerialFor());
    work.y = part.data();
    RunRows(work, {16, 41});
    for (std::size_t i = 0; i < 50; ++i) {
      const bool in = i >= 16 && i < 41;
      ASSERT_EQ(ToFloat(part[i]), in ? ToFloat(whole[i]) : 7) << i;
    }
  });
}

TYPED_TEST(GemvTest, GathersTheNamedExperts) {
  using Out = typename TypeParam::Y;
  for (const int64_t n : {16, 33}) {
    const Matrix<typename TypeParam::Weight> matrix(4, n, 96);
    const auto x = Normal<typename TypeParam::X>(matrix.weight.k);
    const std::vector<int64_t> experts = {3, 1, 3};
    OnEveryIsa([&] {
      for (const int threads : {1, 2, 5}) {
        std::vector<Out> y(static_cast<std::size_t>(3 * n));
        kernels::Run(
            GatherGemv<typename TypeParam::Weight, typename TypeParam::X, Out>{
                .weight = matrix.weight, .experts = experts.data(), .count = 3, .x = x.data(), .y = y.data()},
            ThreadPool(threads));
        for (int64_t e = 0; e < 3; ++e) {
          this->ExpectRight(matrix, experts[static_cast<std::size_t>(e)], x.data(), y.data() + e * n,
                            "expert " + std::to_string(e));
        }
      }
    });
  }
}

TYPED_TEST(GemvTest, InfinitiesAndNansOfTheActivationsReachTheResult) {
  const Matrix<typename TypeParam::Weight> matrix(1, 20, 1100);
  for (const std::vector<double>& specials :
       {std::vector{kInfinity}, {-kInfinity}, {kNan}, {kInfinity, -kInfinity}, {kInfinity, kNan}}) {
    auto x = Normal<typename TypeParam::X>(matrix.weight.k);
    for (std::size_t i = 0; i < specials.size(); ++i) x[1050 - i] = FromDouble<typename TypeParam::X>(specials[i]);
    OnEveryIsa([&] { this->RunAndExpectRight(matrix, x, 1); });
  }
}

TYPED_TEST(GemvTest, TinyAndHugeAndZeroActivations) {
  const Matrix<typename TypeParam::Weight> matrix(1, 20, 1100);
  // 1e30 among numbers of size 1: the block that holds it loses the small ones, as fp32 does.
  for (const double size : {0.0, 1e-33, 1e-20, 1e30}) {
    auto x = Normal<typename TypeParam::X>(matrix.weight.k, 0, size);
    OnEveryIsa([&] { this->RunAndExpectRight(matrix, x, 1); });
  }
}

// An offset between weights and products that is not taken back exactly would show.
TYPED_TEST(GemvTest, ALargeMeanOfTheActivationsDoesNotHurt) {
  const Matrix<typename TypeParam::Weight> matrix(1, 5, 2048);
  const auto x = Normal<typename TypeParam::X>(matrix.weight.k, 100, 1);
  OnEveryIsa([&] { this->RunAndExpectRight(matrix, x, 1); });
}

template <typename T>
class SpecialWeightTest : public testing::Test {};
using PlainTypes = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(SpecialWeightTest, PlainTypes);

TYPED_TEST(SpecialWeightTest, InfinitiesAndNansReachTheirRowAlone) {
  constexpr int64_t kColumns = 100;
  Matrix<PlainWeight<TypeParam>> matrix(1, 4, kColumns);
  matrix.values[0 * kColumns + 99] = FromDouble<TypeParam>(kInfinity);
  matrix.values[1 * kColumns + 5] = FromDouble<TypeParam>(kNan);
  matrix.values[2 * kColumns + 64] = FromDouble<TypeParam>(-kInfinity);
  const std::vector<TypeParam> x(kColumns, FromDouble<TypeParam>(1));
  OnEveryIsa([&] {
    std::vector<TypeParam> y(4);
    kernels::Run(Gemv<PlainWeight<TypeParam>, TypeParam, TypeParam>{matrix.weight, x.data(), y.data(), 1}, SerialFor());
    EXPECT_EQ(ClassOf(ToFloat(y[0])), Class::kPositiveInfinity);
    EXPECT_EQ(ClassOf(ToFloat(y[1])), Class::kNan);
    EXPECT_EQ(ClassOf(ToFloat(y[2])), Class::kNegativeInfinity);
    EXPECT_EQ(ClassOf(ToFloat(y[3])), Class::kFinite);
  });
}

TEST(GemvInt4, EveryGroupLength) {
  for (const int64_t group : {32, 64, 128, 256}) {
    const Matrix<Int4Weight> matrix(1, 21, 1280, group);
    const std::vector<Bf16> x = Normal<Bf16>(matrix.weight.k, 1);
    OnEveryIsa([&] {
      std::vector<float> y(21);
      kernels::Run(Gemv<Int4Weight, Bf16, float>{matrix.weight, x.data(), y.data(), 1}, ThreadPool(2));
      for (int64_t row = 0; row < 21; ++row) {
        double expected = 0;
        for (int64_t i = 0; i < matrix.weight.k; ++i) expected += matrix.At(0, row, i) * ToFloat(x[i]);
        ExpectClose(y[static_cast<std::size_t>(row)], expected, 0x1p-14, 50, std::to_string(row));
      }
    });
  }
}

TEST(HugePages, KeepTheData) {
  std::vector<int> data(std::size_t{3} << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<int>(i);
  UseHugePages(data.data(), data.size() * sizeof(int));
  UseHugePages(data.data(), 100);
  UseHugePages(nullptr, 0);
  for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], static_cast<int>(i));
}

}  // namespace
}  // namespace roofbench::kernels
