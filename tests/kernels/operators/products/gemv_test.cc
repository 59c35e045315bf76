// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/gemv.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <type_traits>
#include <utility>

#include "lib/kernels/threading/huge_pages.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/products/int4_testing.h"

namespace roofbench::kernels {
namespace {

// The weights of experts, which follow each other: `experts` times n rows.
template <typename Weight>
struct Matrix;

template <typename T>
struct Matrix<PlainWeight<T>> {
  Matrix(int64_t experts, int64_t n, int64_t k) : values(Normal<T>(experts * n * k)), weight{values.data(), n, k} {}
  std::vector<T> values;
  PlainWeight<T> weight;
};

template <>
struct Matrix<Int8Weight> {
  Matrix(int64_t experts, int64_t n, int64_t k) : values(Size(experts * n * k)), scales(Size(experts * n)) {
    // An offset, so that a sum over the weights alone is not zero.
    const std::vector<float> source = Normal<float>(experts * n * k, 0.25);
    QuantizeInt8(source.data(), k, values.data(), scales.data(), {0, experts * n});
    weight = {.data = values.data(), .scales = scales.data(), .n = n, .k = k};
  }
  std::vector<int8_t> values;
  std::vector<float> scales;
  Int8Weight weight;
};

constexpr int64_t WholeGroups(int64_t k, int64_t group) { return (k + group - 1) / group * group; }

template <>
struct Matrix<Int4Weight> : PackedInt4 {
  Matrix(int64_t experts, int64_t n, int64_t k, int64_t group = 32)
      : PackedInt4(Normal<float>(experts * n * WholeGroups(k, group), 0.25), experts, n, WholeGroups(k, group), group) {
  }
};

template <typename T>
double At(const PlainWeight<T>& weight, int64_t row, int64_t column) {
  return ToFloat(weight.data[row * weight.k + column]);
}
template <typename Weight>
double At(const Weight& weight, int64_t row, int64_t column) {
  return Dequantize(weight, row, column);
}

template <typename Y, typename Weight, typename X>
void ExpectRight(const Weight& weight, const X* x, const Y* y, const std::string& where) {
  constexpr bool kQuantized = std::is_same_v<Weight, Int8Weight> || std::is_same_v<Weight, Int4Weight>;
  constexpr double kSumError = kQuantized ? 0x1p-13 : 0x1p-19;
  for (int64_t row = 0; row < weight.n; ++row) {
    double expected = 0;
    double terms = 1e-30;
    for (int64_t i = 0; i < weight.k; ++i) {
      const double product = At(weight, row, i) * ToFloat(x[i]);
      expected += product;
      terms += product * product;
    }
    // fp32 sums wander like the root of the sum of squares; fixed point adds 2^-16 of the largest activation to each.
    ExpectClose(y[row], expected, kRounding<Y> + kSumError, std::isfinite(terms) ? std::sqrt(terms) : 1,
                where + " row " + std::to_string(row));
  }
}

template <typename Y, typename Weight, typename X>
std::vector<Y> Product(const Weight& weight, const X* x, int64_t m, const ParallelFor& parallel_for = SerialFor()) {
  std::vector<Y> y(Size(m * weight.n) + 1, FromDouble<Y>(123));
  Run(Gemv<Weight, X, Y>{.weight = weight, .x = x, .y = y.data(), .m = m}, parallel_for);
  EXPECT_EQ(ToFloat(y.back()), 123) << "written beyond the result";
  y.pop_back();
  return y;
}

template <typename Y, typename Weight, typename X>
void RunAndExpectRight(const Weight& weight, const std::vector<X>& x, int64_t m = 1) {
  OnEveryIsa([&] {
    const std::vector<Y> y = Product<Y>(weight, x.data(), m, ThreadPool(2));
    for (int64_t i = 0; i < m; ++i) {
      ExpectRight(weight, x.data() + i * weight.k, y.data() + i * weight.n,
                  "n " + std::to_string(weight.n) + " k " + std::to_string(weight.k) + " vector " + std::to_string(i));
    }
  });
}

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
  static std::vector<X> Vectors(const Weight& weight, int64_t m = 1, double mean = 0, double deviation = 1) {
    return Normal<X>(m * weight.k, mean, deviation, /*seed=*/2);
  }
  static void Check(int64_t n, int64_t k, int64_t m = 1, double mean = 0, double deviation = 1) {
    const Matrix<Weight> matrix(1, n, k);
    RunAndExpectRight<Y>(matrix.weight, Vectors(matrix.weight, m, mean, deviation), m);
  }
};

using AllTypes =
    testing::Types<Types<Fp32Weight, float, float>, Types<Bf16Weight, Bf16, Bf16>, Types<Bf16Weight, Bf16, float>,
                   Types<Int8Weight, Bf16, Bf16>, Types<Int8Weight, Bf16, float>, Types<Int4Weight, Bf16, Bf16>,
                   Types<Int4Weight, Bf16, float>>;
TYPED_TEST_SUITE(GemvTest, AllTypes);

TYPED_TEST(GemvTest, AgreesWithFloat64AtOddSizes) {
  for (const int64_t k : {1, 31, 33, 64, 100, 257, 1023, 1024, 1057, 1376}) {
    for (const int64_t n : {1, 19}) this->Check(n, k, 1, 0.5);
  }
  this->Check(2200, 33, 1, 0.5);  // more rows than a thread computes at a time
}

TYPED_TEST(GemvTest, WithoutRowsOrColumnsNothingOrZerosAreWritten) {
  this->Check(0, 64);
  this->Check(5, 0);
}

TYPED_TEST(GemvTest, SeveralVectorsShareTheWeights) {
  // Columns that leave a partial register.
  for (const int64_t m : {2, 3, 4, 5, 6, 7, 8, 13}) this->Check(35, 96, m);
  for (const int64_t m : {2, 5, 8}) this->Check(7, 33, m);
  // Rows for more than one chunk of them.
  this->Check(150, 1057, 7);
  // Whole tiles of vectors, halves, quarters, short ones, and some beside them; more vectors than are kept at a time.
  for (const int64_t m : {4, 7, 8, 11, 12, 16, 19, 20, 23, 31, 48}) this->Check(70, 1057, m);
  this->Check(33, 96, 81);
}

TYPED_TEST(GemvTest, AVectorHasTheSameResultAmongOthers) {
  using Out = typename TypeParam::Y;
  if constexpr (std::is_same_v<typename TypeParam::Weight, Bf16Weight>) {
    return;  // several add in another order
  }
  constexpr int64_t kVectors = 6;  // few enough for int8 not to be the columns of tiles
  constexpr int64_t kRows = 150;
  const Matrix<typename TypeParam::Weight> matrix(1, kRows, 1000);
  const auto x = this->Vectors(matrix.weight, kVectors);
  OnEveryIsa([&] {
    const std::vector<Out> together = Product<Out>(matrix.weight, x.data(), kVectors);
    for (int64_t i = 0; i < kVectors; ++i) {
      const std::vector<Out> alone = Product<Out>(matrix.weight, x.data() + i * matrix.weight.k, 1);
      for (int64_t row = 0; row < kRows; ++row) {
        ASSERT_EQ(ToFloat(together[Size(i * kRows + row)]), ToFloat(alone[Size(row)]))
            << "vector " << i << " row " << row;
      }
    }
  });
}

TYPED_TEST(GemvTest, AnInfinityReachesItsVectorAlone) {
  using Out = typename TypeParam::Y;
  constexpr int64_t kVectors = 20;
  const Matrix<typename TypeParam::Weight> matrix(1, 40, 96);
  auto x = this->Vectors(matrix.weight, kVectors);
  x[Size(3 * matrix.weight.k + 5)] = FromDouble<typename TypeParam::X>(kInfinity);
  RunAndExpectRight<Out>(matrix.weight, x, kVectors);
}

TEST(GemvInt8, TheLargestSumsFit) {
  constexpr int64_t kRows = 40;
  constexpr int64_t kColumns = 2 * 1024;
  const std::vector<int8_t> w(Size(kRows * kColumns), -128);
  const std::vector<float> scales(Size(kRows), 0.5F);
  for (const int64_t m : {1, 2, 16}) {
    for (const double size : {1.0, -1.0}) {
      const std::vector<Bf16> x(Size(m * kColumns), FromDouble<Bf16>(size));
      RunAndExpectRight<float>(Int8Weight{w.data(), scales.data(), kRows, kColumns}, x, m);
    }
  }
}

TYPED_TEST(GemvTest, StreamsDoNotChangeResults) {
  using Out = typename TypeParam::Y;
  // Rows of more than one chunk, and some that remain; of bf16 also enough for the fewest streams.
  constexpr bool kLong = std::is_same_v<typename TypeParam::Weight, Bf16Weight>;
  for (const auto& [n, k] : {std::pair(1100, 96), std::pair(150, kLong ? 60000 : 1056)}) {
    const Matrix<typename TypeParam::Weight> matrix(1, n, k);
    const auto x = this->Vectors(matrix.weight);
    const std::vector<Out> few = Product<Out>(matrix.weight, x.data(), 1);
    const LimitIsa limit(~uint32_t{kFewStreams});
    const std::vector<Out> many = Product<Out>(matrix.weight, x.data(), 1);
    for (std::size_t row = 0; row < few.size(); ++row) ASSERT_EQ(ToFloat(few[row]), ToFloat(many[row])) << row;
  }
}

TYPED_TEST(GemvTest, RowsAloneAreThoseOfTheWhole) {
  using Out = typename TypeParam::Y;
  const Matrix<typename TypeParam::Weight> matrix(1, 50, 160);
  const auto x = this->Vectors(matrix.weight);
  OnEveryIsa([&] {
    const std::vector<Out> whole = Product<Out>(matrix.weight, x.data(), 1);
    std::vector<Out> part(50, FromDouble<Out>(7));
    RunRows(Gemv<typename TypeParam::Weight, typename TypeParam::X, Out>{matrix.weight, x.data(), part.data(), 1},
            {16, 41});
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
    const auto x = this->Vectors(matrix.weight);
    const std::vector<int64_t> experts = {3, 1, 3};
    OnEveryIsa([&] {
      for (const int threads : {1, 2, 5}) {
        std::vector<Out> y(Size(3 * n));
        Run(GatherGemv<typename TypeParam::Weight, typename TypeParam::X, Out>{matrix.weight, experts.data(), 3,
                                                                               x.data(), y.data()},
            ThreadPool(threads));
        for (int64_t e = 0; e < 3; ++e) {
          ExpectRight(Expert(matrix.weight, experts[Size(e)]), x.data(), y.data() + e * n,
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
    auto x = this->Vectors(matrix.weight);
    for (std::size_t i = 0; i < specials.size(); ++i) x[1050 - i] = FromDouble<typename TypeParam::X>(specials[i]);
    RunAndExpectRight<typename TypeParam::Y>(matrix.weight, x);
  }
}

TYPED_TEST(GemvTest, TinyHugeZeroAndFarFromZeroActivations) {
  // 1e30 among numbers of size 1: the block that holds it loses the small ones, as fp32 does.
  for (const double size : {0.0, 1e-33, 1e-20, 1e30}) this->Check(20, 1100, 1, 0, size);
  // An offset between weights and products that is not taken back exactly would show.
  this->Check(5, 2048, 1, 100, 1);
}

template <typename T>
class SpecialWeightTest : public testing::Test {};
TYPED_TEST_SUITE(SpecialWeightTest, FloatTypes);

TYPED_TEST(SpecialWeightTest, InfinitiesAndNansReachTheirRowAlone) {
  constexpr int64_t kColumns = 100;
  Matrix<PlainWeight<TypeParam>> matrix(1, 4, kColumns);
  matrix.values[0 * kColumns + 99] = FromDouble<TypeParam>(kInfinity);
  matrix.values[1 * kColumns + 5] = FromDouble<TypeParam>(kNan);
  matrix.values[2 * kColumns + 64] = FromDouble<TypeParam>(-kInfinity);
  RunAndExpectRight<TypeParam>(matrix.weight, std::vector<TypeParam>(kColumns, FromDouble<TypeParam>(1)));
}

TEST(GemvInt4, EveryGroupLength) {
  for (const int64_t group : {32, 64, 128, 256}) {
    // Tiles for two streams of each thread, and one that remains.
    const Matrix<Int4Weight> matrix(1, 85, 1280, group);
    for (const int64_t m : {1, 2, 3, 8}) RunAndExpectRight<float>(matrix.weight, Normal<Bf16>(m * 1280, 1), m);
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
