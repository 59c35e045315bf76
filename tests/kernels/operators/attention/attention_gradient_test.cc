// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/attention/attention_testing.h"

namespace roofbench::kernels {
namespace {

using Rows = std::vector<std::vector<double>>;  // [batch · heads · tokens][head_dim]

template <typename T>
Rows InDouble(const Tokens<T>& tokens, int64_t batch, int64_t heads) {
  Rows rows;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t token = 0; token < tokens.tokens_; ++token) {
        const T* const from = tokens.ConstView().At(b, head, token);
        std::vector<double>& row = rows.emplace_back();
        for (int64_t i = 0; i < tokens.dim_; ++i) row.push_back(ToFloat(from[i]));
      }
    }
  }
  return rows;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
void Add(std::vector<double>& to, double factor, const std::vector<double>& from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

// Attention and its gradients in double precision, as the chain rule has them.
class Exact {
 public:
  Exact(const AttentionShape& shape, Rows q, Rows k, Rows v)
      : shape_(shape), q_(std::move(q)), k_(std::move(k)), v_(std::move(v)) {}

  // Weights of query row `i`: one for each key that it sees.
  std::vector<double> Weights(std::size_t i) const {
    const auto query = static_cast<int64_t>(i) % shape_.queries;
    const int64_t seen = shape_.causal ? std::max<int64_t>(0, shape_.keys - shape_.queries + query + 1) : shape_.keys;
    std::vector<double> weights;
    for (std::size_t j = FirstKey(i); weights.size() < static_cast<std::size_t>(seen); ++j) {
      weights.push_back(Dot(q_[i], k_[j]) * Scale());
    }
    const double largest = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  std::vector<double> Result(std::size_t i, const std::vector<double>& weights) const {
    std::vector<double> y(static_cast<std::size_t>(shape_.head_dim));
    for (std::size_t j = 0; j < weights.size(); ++j) Add(y, weights[j], v_[FirstKey(i) + j]);
    return y;
  }

  struct Gradients {
    Rows dq, dk, dv;
  };
  Gradients GradientsFrom(const Rows& dy) const {
    const auto zeros = [&](const Rows& like) {
      return Rows(like.size(), std::vector<double>(static_cast<std::size_t>(shape_.head_dim)));
    };
    Gradients of{zeros(q_), zeros(k_), zeros(v_)};
    for (std::size_t i = 0; i < q_.size(); ++i) {
      const std::vector<double> weights = Weights(i);
      const double correction = Dot(dy[i], Result(i, weights));
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const std::size_t key = FirstKey(i) + j;
        const double ds = weights[j] * (Dot(dy[i], v_[key]) - correction) * Scale();
        Add(of.dv[key], weights[j], dy[i]);
        Add(of.dk[key], ds, q_[i]);
        Add(of.dq[i], ds, k_[key]);
      }
    }
    return of;
  }

  // Σ dy · y, whose gradients those are.
  double Loss(const Rows& dy) const {
    double loss = 0;
    for (std::size_t i = 0; i < q_.size(); ++i) loss += Dot(dy[i], Result(i, Weights(i)));
    return loss;
  }

  Rows& q() { return q_; }
  Rows& k() { return k_; }
  Rows& v() { return v_; }

 private:
  double Scale() const { return 1 / std::sqrt(static_cast<double>(shape_.head_dim)); }
  // The row of the first key that a query row sees.
  std::size_t FirstKey(std::size_t i) const {
    return i / static_cast<std::size_t>(shape_.queries * shape_.group) * static_cast<std::size_t>(shape_.keys);
  }

  AttentionShape shape_;
  Rows q_, k_, v_;
};

template <typename T>
class Problem {
 public:
  Problem(const AttentionShape& shape, double deviation, uint32_t seed)
      : shape_(shape),
        deviation_(deviation),
        q_(OfQueries(deviation, seed)),
        k_(OfKeys(seed + 1)),
        v_(OfKeys(seed + 2)),
        dy_(OfQueries(1, seed + 3)),
        expected_(Ideal().GradientsFrom(InDouble(dy_, shape.batch, shape.query_heads()))) {}

  Exact Ideal() const {
    return {shape_, InDouble(q_, shape_.batch, shape_.query_heads()), InDouble(k_, shape_.batch, shape_.heads),
            InDouble(v_, shape_.batch, shape_.heads)};
  }

  struct Gradients {
    Tokens<T> dq, dk, dv;
  };
  Gradients Computed(const ParallelFor& parallel_for) const {
    Tokens<T> y = OfQueries(1, 9);
    constexpr float kUntouched = 1e30F;
    std::vector<float> logs(static_cast<std::size_t>(shape_.batch * shape_.query_heads() * shape_.queries) + 1,
                            kUntouched);
    Attention<T> forward{.shape = shape_,
                         .q = q_.ConstView(),
                         .k = k_.ConstView(),
                         .v = v_.ConstView(),
                         .y = y.View(),
                         .log_sum_exp = logs.data()};
    std::vector<float> packed(static_cast<std::size_t>(ScratchFloats(forward)));
    forward.scratch = packed.data();
    Run(forward, parallel_for);
    EXPECT_EQ(logs.back(), kUntouched);

    Gradients made{OfQueries(1, 10), OfKeys(11), OfKeys(12)};
    AttentionGradient<T> work{.shape = shape_,
                              .q = q_.ConstView(),
                              .k = k_.ConstView(),
                              .v = v_.ConstView(),
                              .y = y.ConstView(),
                              .log_sum_exp = logs.data(),
                              .dy = dy_.ConstView(),
                              .dq = made.dq.View(),
                              .dk = made.dk.View(),
                              .dv = made.dv.View()};
    // Previous contents must not matter.
    std::vector<float> scratch(static_cast<std::size_t>(ScratchFloats(work, parallel_for.threads())) + 1,
                               std::numeric_limits<float>::quiet_NaN());
    scratch.back() = kUntouched;
    work.scratch = scratch.data();
    Run(work, parallel_for);
    EXPECT_EQ(scratch.back(), kUntouched);
    return made;
  }

  void Check(double tolerance, const ParallelFor& parallel_for = SerialFor()) const {
    const Gradients made = Computed(parallel_for);
    ExpectRows(made.dv, expected_.dv, shape_.heads, 1, tolerance, "dv");
    ExpectRows(made.dk, expected_.dk, shape_.heads, deviation_, tolerance, "dk");
    ExpectRows(made.dq, expected_.dq, shape_.query_heads(), 1, tolerance, "dq");
    ExpectBesideUntouched(made.dq, OfQueries(1, 10), shape_.query_heads());
    ExpectBesideUntouched(made.dk, OfKeys(11), shape_.heads);
    ExpectBesideUntouched(made.dv, OfKeys(12), shape_.heads);
  }

  const Tokens<T>& dy() const { return dy_; }

 private:
  Tokens<T> OfQueries(double deviation, uint32_t seed) const {
    return {shape_.batch, shape_.queries, shape_.query_heads(), shape_.head_dim, deviation, seed};
  }
  Tokens<T> OfKeys(uint32_t seed) const { return {shape_.batch, shape_.keys, shape_.heads, shape_.head_dim, 1, seed}; }

  // Within the tolerance of the row's elements, and of `scale`: the factors are about as large.
  void ExpectRows(const Tokens<T>& actual, const Rows& expected, int64_t heads, double scale, double tolerance,
                  const char* name) const {
    const Rows rows = InDouble(actual, shape_.batch, heads);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double length = std::sqrt(Dot(expected[i], expected[i]) / static_cast<double>(shape_.head_dim));
      for (std::size_t column = 0; column < rows[i].size(); ++column) {
        const double error = std::abs(rows[i][column] - expected[i][column]);
        if (error <= tolerance * (std::abs(expected[i][column]) + length + scale)) continue;
        FAIL() << shape_ << ": " << name << ", row " << i << ", column " << column << ": " << rows[i][column]
               << " instead of " << expected[i][column];
      }
    }
  }

  static void ExpectBesideUntouched(const Tokens<T>& actual, const Tokens<T>& before, int64_t heads) {
    for (std::size_t at = 0; at < before.values_.size(); ++at) {
      if (static_cast<int64_t>(at) % before.stride_ < heads * before.dim_) continue;
      ASSERT_EQ(actual.values_[at], before.values_[at]) << "beside heads";
    }
  }

  AttentionShape shape_;
  double deviation_;  // of q
  Tokens<T> q_, k_, v_, dy_;
  typename Exact::Gradients expected_;
};

template <typename T>
class AttentionGradientOf : public testing::Test {};
using Types = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(AttentionGradientOf, Types);

TYPED_TEST(AttentionGradientOf, RandomShapesOnEveryIsa) {
  std::mt19937 random(2);
  for (uint32_t i = 0; i < 60; ++i) {
    const Problem<TypeParam> problem(RandomAttentionShape(i, random), 1, i);
    OnEveryIsa([&] { problem.Check(kTolerance<TypeParam>); });
    if (testing::Test::HasFailure()) return;
  }
}

// One head: its keys are shared, and each share has a private dq. Several: more than threads, and fewer.
TYPED_TEST(AttentionGradientOf, ThreadsShareHeadsAndKeys) {
  for (const int64_t heads : {1, 3, 5}) {
    for (const bool causal : {true, false}) {
      const Problem<TypeParam> problem(
          {.heads = heads, .group = 2, .queries = 150, .keys = 300, .head_dim = 24, .causal = causal}, 1, 3);
      for (const int threads : {1, 2, 3, 8}) problem.Check(kTolerance<TypeParam>, ThreadPool(threads));
    }
  }
}

TYPED_TEST(AttentionGradientOf, QueriesBeforeTheFirstKeyHaveNone) {
  const Problem<TypeParam> problem({.group = 2, .queries = 190, .keys = 20, .head_dim = 32, .causal = true}, 1, 1);
  OnEveryIsa([&] { problem.Check(kTolerance<TypeParam>); });
}

// With scores far apart a few keys have all the weight, and many have zero.
TYPED_TEST(AttentionGradientOf, SharpWeightsDoNotOverflow) {
  const Problem<TypeParam> problem({.queries = 130, .keys = 300, .head_dim = 64, .causal = true}, 100, 5);
  OnEveryIsa([&] { problem.Check(40 * kTolerance<TypeParam>); });
}

TYPED_TEST(AttentionGradientOf, AnInfiniteQueryMakesNoNumbers) {
  OnEveryIsa([] {
    constexpr int64_t kDim = 16;
    std::vector<TypeParam> q = Normal<TypeParam>(kDim);
    q[3] = FromDouble<TypeParam>(std::numeric_limits<double>::infinity());
    const std::vector<TypeParam> k = Normal<TypeParam>(40 * kDim, 0, 1, 2);
    const float log = std::numeric_limits<float>::quiet_NaN();
    std::vector<TypeParam> gradients(81 * kDim);
    AttentionGradient<TypeParam> work{.shape = {.queries = 1, .keys = 40, .head_dim = kDim},
                                      .q = {q.data(), 0, 0, kDim},
                                      .k = {k.data(), 0, 0, kDim},
                                      .v = {k.data(), 0, 0, kDim},
                                      .y = {k.data(), 0, 0, kDim},
                                      .log_sum_exp = &log,
                                      .dy = {k.data(), 0, 0, kDim},
                                      .dq = {gradients.data(), 0, 0, kDim},
                                      .dk = {gradients.data() + kDim, 0, 0, kDim},
                                      .dv = {gradients.data() + 41 * kDim, 0, 0, kDim}};
    std::vector<float> scratch(static_cast<std::size_t>(ScratchFloats(work, 1)));
    work.scratch = scratch.data();
    Run(work, SerialFor());
    for (const TypeParam value : gradients) EXPECT_TRUE(std::isnan(ToFloat(value)));
  });
}

// The formulas themselves, checked by finite differences of the forward functions.
TEST(AttentionGradient, IsTheSlopeOfTheForwardPass) {
  const AttentionShape shape{
      .batch = 2, .heads = 2, .group = 3, .queries = 7, .keys = 9, .head_dim = 5, .causal = true};
  const Problem<float> problem(shape, 1, 6);
  const Problem<float>::Gradients made = problem.Computed(SerialFor());
  const Rows dy = InDouble(problem.dy(), shape.batch, shape.query_heads());
  Exact ideal = problem.Ideal();
  constexpr double kStep = 1e-4;
  const auto expect_slopes = [&](Rows& of, const Rows& gradients) {
    for (std::size_t i = 0; i < of.size(); ++i) {
      for (std::size_t column = 0; column < of[i].size(); ++column) {
        const double middle = of[i][column];
        of[i][column] = middle + kStep;
        const double above = ideal.Loss(dy);
        of[i][column] = middle - kStep;
        const double below = ideal.Loss(dy);
        of[i][column] = middle;
        EXPECT_NEAR(gradients[i][column], (above - below) / (2 * kStep), 1e-5) << i << ", " << column;
      }
    }
  };
  expect_slopes(ideal.q(), InDouble(made.dq, shape.batch, shape.query_heads()));
  expect_slopes(ideal.k(), InDouble(made.dk, shape.batch, shape.heads));
  expect_slopes(ideal.v(), InDouble(made.dv, shape.batch, shape.heads));
}

}  // namespace
}  // namespace roofbench::kernels
