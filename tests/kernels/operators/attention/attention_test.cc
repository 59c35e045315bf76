// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/attention/attention_testing.h"

namespace roofbench::kernels {
namespace {

struct Scores {
  float scale = 0;
  float cap = 0;
};

template <typename T>
class Problem {
 public:
  Problem(const AttentionShape& shape, double deviation, uint32_t seed, Scores scores = {})
      : shape_(shape),
        scores_(scores),
        q_(shape.batch, shape.queries, shape.query_heads(), shape.head_dim, deviation, seed),
        k_(shape.batch, shape.keys, shape.heads, shape.head_dim, 1, seed + 1),
        v_(shape.batch, shape.keys, shape.heads, shape.head_dim, 1, seed + 2) {
    for (int64_t batch = 0; batch < shape.batch; ++batch) {
      for (int64_t head = 0; head < shape.query_heads(); ++head) {
        for (int64_t query = 0; query < shape.queries; ++query) Expect(batch, head, query);
      }
    }
  }

  void Check(double tolerance, const ParallelFor& parallel_for = SerialFor()) const {
    Tokens<T> y(shape_.batch, shape_.queries, shape_.query_heads(), shape_.head_dim, 1, 9);
    const std::vector<T> before = y.values_;
    Attention<T> work{.shape = shape_,
                      .q = q_.ConstView(),
                      .k = k_.ConstView(),
                      .v = v_.ConstView(),
                      .y = y.View(),
                      .scale = scores_.scale,
                      .cap = scores_.cap};
    constexpr float kUntouched = 1e30F;
    std::vector<float> scratch(static_cast<std::size_t>(ScratchFloats(work)) + 1, kUntouched);
    work.scratch = scratch.data();
    Run(work, parallel_for);
    EXPECT_EQ(scratch.back(), kUntouched);
    std::size_t i = 0;
    for (int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (int64_t head = 0; head < shape_.query_heads(); ++head) {
        for (int64_t query = 0; query < shape_.queries; ++query) {
          const T* const row = y.View().At(batch, head, query);
          for (int64_t column = 0; column < shape_.head_dim; ++column, ++i) {
            const double error = std::abs(ToFloat(row[column]) - expected_[i]);
            if (error <= tolerance * (std::abs(expected_[i]) + 0.3)) continue;
            FAIL() << shape_ << ": head " << head << ", query " << query << ", column " << column << ": "
                   << ToFloat(row[column]) << " instead of " << expected_[i];
          }
        }
      }
    }
    for (std::size_t at = 0; at < before.size(); ++at) {
      const auto within = static_cast<int64_t>(at) % y.stride_;
      if (within < shape_.query_heads() * shape_.head_dim) continue;
      EXPECT_EQ(y.values_[at], before[at]) << "beside heads";
    }
  }

 private:
  // One row in double precision; zeros where no key is seen.
  void Expect(int64_t batch, int64_t head, int64_t query) {
    const int64_t seen = shape_.causal ? std::max<int64_t>(0, shape_.keys - shape_.queries + query + 1) : shape_.keys;
    const T* const q = q_.ConstView().At(batch, head, query);
    std::vector<double> weights;
    for (int64_t key = 0; key < seen; ++key) {
      const T* const k = k_.ConstView().At(batch, head / shape_.group, key);
      double score = 0;
      for (int64_t i = 0; i < shape_.head_dim; ++i) score += double{ToFloat(q[i])} * ToFloat(k[i]);
      score *= scores_.scale > 0 ? double{scores_.scale} : 1 / std::sqrt(static_cast<double>(shape_.head_dim));
      weights.push_back(scores_.cap > 0 ? scores_.cap * std::tanh(score / scores_.cap) : score);
    }
    const double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    std::vector<double> row(static_cast<std::size_t>(shape_.head_dim));
    for (int64_t key = 0; key < seen; ++key) {
      const T* const v = v_.ConstView().At(batch, head / shape_.group, key);
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] += weights[static_cast<std::size_t>(key)] / sum * ToFloat(v[i]);
    }
    expected_.insert(expected_.end(), row.begin(), row.end());
  }

  AttentionShape shape_;
  Scores scores_;
  Tokens<T> q_, k_, v_;
  std::vector<double> expected_;
};

template <typename T>
class AttentionOf : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AttentionOf, Types);

TYPED_TEST(AttentionOf, RandomShapesOnEveryIsa) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 100; ++i) {
    const AttentionShape shape = RandomAttentionShape(i, random);
    const Problem<TypeParam> problem(shape, 1, i);
    OnEveryIsa([&] { problem.Check(kTolerance<TypeParam>); });
    if (i < 10) problem.Check(kTolerance<TypeParam>, ThreadPool(2));
    if (testing::Test::HasFailure()) return;
  }
}

// Where scores have a bound, many are far above it.
TYPED_TEST(AttentionOf, ScoresMayHaveAnotherScaleAndABound) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 20; ++i) {
    const AttentionShape shape = RandomAttentionShape(i, random);
    const Scores scores = {i % 2 == 0 ? 0 : 0.2F, i % 3 == 0 ? 0 : 1.5F};
    const Problem<TypeParam> problem(shape, i % 3 == 0 ? 1 : 4, i, scores);
    OnEveryIsa([&] { problem.Check(2 * kTolerance<TypeParam>); });
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST(AttentionOf, QueriesBeforeTheFirstKeySeeNothing) {
  const Problem<TypeParam> problem({.group = 2, .queries = 90, .keys = 20, .head_dim = 32, .causal = true}, 1, 1);
  OnEveryIsa([&] { problem.Check(kTolerance<TypeParam>); });
}

// The largest score comes late, and with scores far apart a few keys have all the weight.
TYPED_TEST(AttentionOf, SharpWeightsDoNotOverflow) {
  const Problem<TypeParam> problem({.queries = 3, .keys = 1100, .head_dim = 64}, 100, 5);
  OnEveryIsa([&] { problem.Check(20 * kTolerance<TypeParam>); });
}

TYPED_TEST(AttentionOf, AnInfiniteScoreMakesNoNumberOfItself) {
  OnEveryIsa([] {
    constexpr int64_t kDim = 16;
    std::vector<TypeParam> q = Normal<TypeParam>(kDim);
    q[3] = FromDouble<TypeParam>(std::numeric_limits<double>::infinity());
    const std::vector<TypeParam> k = Normal<TypeParam>(40 * kDim, 0, 1, 2);
    std::vector<TypeParam> y(kDim);
    Attention<TypeParam> work{.shape = {.queries = 1, .keys = 40, .head_dim = kDim},
                              .q = {q.data(), 0, 0, kDim},
                              .k = {k.data(), 0, 0, kDim},
                              .v = {k.data(), 0, 0, kDim},
                              .y = {y.data(), 0, 0, kDim}};
    std::vector<float> scratch(static_cast<std::size_t>(ScratchFloats(work)));
    work.scratch = scratch.data();
    Run(work, SerialFor());
    for (const TypeParam value : y) EXPECT_TRUE(std::isnan(ToFloat(value)));
  });
}

}  // namespace
}  // namespace roofbench::kernels
