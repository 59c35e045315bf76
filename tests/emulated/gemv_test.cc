// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <span>

#include "lib/kernels/cuda/launch_cuda.h"
#include "tests/emulated/cuda/cuda_runtime_api.h"
#include "tests/emulated/values.h"

namespace roofbench::emulated {
namespace {

using kernels::GemvArguments;
using kernels::LaunchGemv;
using kernels::WeightType;

constexpr double kFp32 = 3e-6;

std::vector<double> Values(const auto& stored) {
  std::vector<double> values;
  for (const auto& one : stored) values.push_back(Value(one));
  return values;
}

// y[chosen][batch][rows] of matrices w[experts][rows][cols] in double precision.
std::vector<double> Exact(const GemvArguments& a, std::span<const double> w, std::span<const double> x) {
  std::vector<double> y;
  for (int64_t i = 0; i < a.chosen; ++i) {
    const int64_t expert = a.experts == nullptr ? 0 : a.experts[i];
    for (int64_t b = 0; b < a.batch; ++b) {
      for (int64_t row = 0; row < a.rows; ++row) {
        double sum = 0;
        for (int64_t column = 0; column < a.cols; ++column) {
          sum += w[static_cast<std::size_t>((expert * a.rows + row) * a.cols + column)] *
                 x[static_cast<std::size_t>(b * a.cols + column)];
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

// `chosen`: the experts of a gather; empty: the first matrix alone.
template <typename X>
void ExpectRight(GemvArguments a, std::span<const double> w, const std::vector<int64_t>& chosen = {}) {
  if (!chosen.empty()) {
    a.chosen = static_cast<int>(chosen.size());
    a.experts = chosen.data();
  }
  const auto x = Normal<X>(a.batch * a.cols, 0, 11);
  const auto y = Nothing<X>(a.chosen * a.batch * a.rows);
  a.x = x.data();
  a.y = y.data();
  ASSERT_EQ(LaunchGemv(a, CallersStream()), cudaSuccess);
  ExpectNear(y, Exact(a, w, Values(x)), kFp32,
             std::to_string(a.rows) + " x " + std::to_string(a.cols) + " batch " + std::to_string(a.batch));
}

// The operand after `skipped_bytes` of zeros.
Operand<std::byte> After(int64_t skipped_bytes, const void* operand, int64_t bytes) {
  Operand<std::byte> whole(static_cast<std::size_t>(skipped_bytes + bytes));
  if (bytes > 0) std::memcpy(whole.end() - bytes, operand, static_cast<std::size_t>(bytes));
  return whole;
}

// The matrix as the last rows of one with `skipped` rows more, and as the last of many matrices.
template <typename X>
void ExpectRightAfter(int64_t skipped, GemvArguments a, std::span<const double> w) {
  const int64_t bits = a.type == WeightType::kFp32   ? 32
                       : a.type == WeightType::kBf16 ? 16
                       : a.type == WeightType::kInt8 ? 8
                                                     : 4;
  const auto after = [&](const void* operand, int64_t row_bytes) {
    return After(skipped * row_bytes, operand, operand == nullptr ? 0 : a.rows * row_bytes);
  };
  const int64_t scale_bytes = a.group == 0 ? 4 : a.cols / a.group * 2;
  const auto weight = after(a.weight, a.cols * bits / 8);
  const auto scale = after(a.scale, scale_bytes);
  const auto zero = after(a.zero, scale_bytes);
  a.weight = weight.data();
  a.scale = scale.data();
  a.zero = zero.data();
  const int64_t rows = a.rows;
  const auto x = Normal<X>(a.cols, 0, 11);
  const Operand<X> y(static_cast<std::size_t>(skipped + rows));
  a.x = x.data();
  a.y = y.data();
  const auto exact = Exact(a, w, Values(x));
  const auto expect = [&](const X* actual, const std::string& what) {
    ASSERT_EQ(LaunchGemv(a, CallersStream()), cudaSuccess);
    ExpectNear(Operand<X>(std::span<const X>(actual, exact.size())), exact, kFp32, what);
  };
  const int64_t number = skipped / rows;
  a.experts = &number;
  expect(y.data(), "matrix");
  a.experts = nullptr;
  a.rows = skipped + rows;
  const BlocksFrom tested(static_cast<unsigned>(skipped / rows));
  expect(y.end() - rows, "rows");
}

struct Shape {
  int64_t rows;
  int64_t cols;
};

// Which launches of a matrix are tested: those of ExpectRight, or those of ExpectRightAfter.
struct Tested {
  std::vector<int64_t> chosen = {};
  int64_t skipped = 0;
};

template <typename X>
void Expect(const GemvArguments& a, std::span<const double> w, const Tested& tested) {
  if (tested.skipped > 0) {
    ExpectRightAfter<X>(tested.skipped, a, w);
  } else {
    ExpectRight<X>(a, w, tested.chosen);
  }
}

template <typename T>
void ExpectPlainIsRight(WeightType type, const Shape& shape, const Tested& tested = {}) {
  const auto w = Normal<T>(shape.rows * shape.cols, 0, 12);
  Expect<T>({.type = type, .weight = w.data(), .rows = shape.rows, .cols = shape.cols}, Values(w), tested);
}

TEST(Gemv, Plain) {
  for (const Shape& shape : {Shape{1, 8}, {13, 264}, {6, 4096}, {4, 520}}) {
    ExpectPlainIsRight<float>(WeightType::kFp32, shape);
    ExpectPlainIsRight<Bf16>(WeightType::kBf16, shape);
  }
}

void ExpectInt8IsRight(const Shape& shape, int batch, int64_t experts, const Tested& tested) {
  const auto q = Uniform<int8_t>(experts * shape.rows * shape.cols, -128, 127, 13);
  const auto scale = Normal<float>(experts * shape.rows, 1, 14);
  std::vector<double> w;
  for (std::size_t i = 0; i < q.size(); ++i) w.push_back(q[i] * Value(scale[i / static_cast<std::size_t>(shape.cols)]));
  Expect<Bf16>({.type = WeightType::kInt8,
                .weight = q.data(),
                .scale = scale.data(),
                .rows = shape.rows,
                .cols = shape.cols,
                .batch = batch},
               w, tested);
}

TEST(Gemv, Int8) {
  for (const Shape& shape : {Shape{1, 8}, {13, 264}, {6, 24}, {1, 16}, {13, 272}, {5, 4096}}) {
    ExpectInt8IsRight(shape, 1, 1, {});
  }
  for (int batch = 2; batch <= kernels::kMostGemvBatch; ++batch) ExpectInt8IsRight({7, 2320}, batch, 1, {});
  ExpectInt8IsRight({6, 64}, 1, 5, {{4, 0, 2}});
  ExpectInt8IsRight({6, 64}, 3, 5, {{1, 3}});
}

void ExpectInt4IsRight(const Shape& shape, int64_t group, int64_t experts, const Tested& tested) {
  const int64_t count = experts * shape.rows * shape.cols;
  const auto q = Uniform<uint8_t>(count, 0, 15, 15);
  const auto scale = Normal<Bf16>(count / group, 1, 16);
  const auto zero = Normal<Bf16>(count / group, 0, 17);
  const Operand<uint8_t> packed(q.size() / 2);
  std::vector<double> w;
  for (std::size_t i = 0; i < q.size(); ++i) {
    if (i % 2 == 0) packed[i / 2] = static_cast<uint8_t>(q[i] | q[i + 1] << 4);
    const std::size_t of = i / static_cast<std::size_t>(group);
    w.push_back((q[i] - 8) * Value(scale[of]) + Value(zero[of]));
  }
  Expect<Bf16>({.type = WeightType::kInt4,
                .weight = packed.data(),
                .scale = scale.data(),
                .zero = zero.data(),
                .rows = shape.rows,
                .cols = shape.cols,
                .group = group},
               w, tested);
}

TEST(Gemv, Int4) {
  ExpectInt4IsRight({1, 32}, 32, 1, {});
  ExpectInt4IsRight({13, 256}, 32, 1, {});
  ExpectInt4IsRight({5, 8192}, 64, 1, {});
  ExpectInt4IsRight({6, 4224}, 128, 1, {});
  ExpectInt4IsRight({6, 512}, 256, 4, {{3, 1}});
}

// 32 bits cannot number their elements, nor the groups of int4.
TEST(Gemv, LargeMatrices) {
  constexpr Shape kLast{4, 4096};
  for (const int64_t elements : {int64_t{1} << 31, int64_t{1} << 32}) {
    const Tested tested{.skipped = elements / kLast.cols};
    ExpectPlainIsRight<float>(WeightType::kFp32, kLast, tested);
    ExpectPlainIsRight<Bf16>(WeightType::kBf16, kLast, tested);
    ExpectInt8IsRight(kLast, 1, 1, tested);
    ExpectInt4IsRight(kLast, 32, 1, {.skipped = elements * 32 / kLast.cols});
  }
}

TEST(Gemv, RefusesShapesThatItDoesNotTake) {
  const std::vector<float> any(64);
  const auto refused = [&](GemvArguments a) {
    a.weight = a.x = any.data();
    EXPECT_EQ(LaunchGemv(a, CallersStream()), cudaErrorInvalidValue);
  };
  refused({.rows = 1, .cols = 9});
  refused({.rows = 0, .cols = 8});
  refused({.rows = 1, .cols = 8, .batch = 2});
  refused({.type = WeightType::kInt8, .rows = 1, .cols = 8, .batch = 2});
  refused({.type = WeightType::kInt8, .rows = 1, .cols = 16, .batch = kernels::kMostGemvBatch + 1});
  refused({.type = WeightType::kInt8, .rows = 1, .cols = 16, .batch = 0});
  refused({.type = WeightType::kInt4, .rows = 1, .cols = 48, .group = 48});
  refused({.type = WeightType::kInt4, .rows = 1, .cols = 16, .group = 16});
  refused({.type = WeightType::kInt4, .rows = 1, .cols = 96, .group = 64});
  refused({.rows = 1, .cols = 8, .chosen = 2});
  refused({.rows = 1, .cols = 2 * kernels::kMostGemvColumns});
}

}  // namespace
}  // namespace roofbench::emulated
