// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <random>
#include <type_traits>
#include <vector>

#include "lib/kernels/operators/attention/attention_gradient.h"
#include "lib/kernels/operators/attention/attention_tiles.h"
#include "lib/kernels/operators/attention/attention_variant.h"
#include "lib/kernels/threading/thread_pool.h"
#include "tests/kernels/kernel_testing.h"
#include "tests/kernels/operators/attention/attention_testing.h"

namespace roofbench::kernels {

static std::ostream& operator<<(std::ostream& out, const AttentionShape& s) {
  return out << "batch " << s.batch << ", heads " << s.heads << " · " << s.group << ", queries " << s.queries
             << ", keys " << s.keys << ", dim " << s.head_dim << (s.causal ? ", causal" : "");
}

namespace {

// A sum of bf16 weights, each rounded, of values about one.
template <typename T>
constexpr double kTolerance = 2e-5;
template <>
constexpr double kTolerance<Bf16> = 2e-2;

constexpr float kUntouched = 1e30F;

// Tokens side by side, the heads of each within, followed by other data: the layout of a fused projection.
template <typename T>
struct Tokens {
  Tokens(int64_t batch, int64_t tokens, int64_t heads, int64_t dim, double deviation, uint32_t seed)
      : batch_(batch),
        tokens_(tokens),
        heads_(heads),
        dim_(dim),
        stride_(heads * dim + 3),
        values_(Normal<T>(batch * tokens * stride_, 0, deviation, seed)),
        before_(values_) {}
  HeadVectors<T> View() { return {values_.data(), tokens_ * stride_, dim_, stride_}; }
  HeadVectors<const T> ConstView() const { return {values_.data(), tokens_ * stride_, dim_, stride_}; }

  Rows InDouble() const {
    Rows rows;
    for (int64_t row = 0; row < batch_ * heads_ * tokens_; ++row) {
      const T* const from = ConstView().At(row / tokens_ / heads_, row / tokens_ % heads_, row % tokens_);
      std::vector<double>& to = rows.emplace_back();
      for (int64_t i = 0; i < dim_; ++i) to.push_back(ToFloat(from[i]));
    }
    return rows;
  }

  void ExpectOtherDataUntouched() const {
    for (std::size_t at = 0; at < before_.size(); ++at) {
      if (static_cast<int64_t>(at) % stride_ < heads_ * dim_) continue;
      ASSERT_EQ(values_[at], before_[at]) << "next to the heads";
    }
  }

  int64_t batch_;
  int64_t tokens_;
  int64_t heads_;
  int64_t dim_;
  int64_t stride_;
  std::vector<T> values_;
  std::vector<T> before_;
};

// Shape `i` of a series that has odd sizes, one key, groups of 1 to 8, more keys than queries and fewer.
AttentionShape RandomShape(uint32_t i, std::mt19937& random) {
  const auto upto = [&](int64_t most) { return static_cast<int64_t>(1 + random() % static_cast<uint64_t>(most)); };
  AttentionShape shape{.batch = upto(2), .heads = upto(2), .group = upto(8), .head_dim = upto(i % 4 == 0 ? 140 : 40)};
  shape.causal = i % 3 != 0;
  shape.keys = i % 10 == 0 ? 1 : i % 5 == 0 ? 500 + upto(200) : upto(150);
  shape.queries = i % 7 == 0 ? shape.keys : upto(i % 5 == 0 ? 20 : 100);
  if (i % 5 == 0) shape.batch = shape.group = 1;
  return shape;
}

// Calls body(variant) as OnEveryIsa does, and with tiles, emulated.
template <typename T>
void OnEveryVariant(const std::function<void(const AttentionVariant<T>&)>& body) {
  OnEveryIsa([&] { body(BestAttentionVariant<T>()); });
#if ROOFBENCH_X86
  if constexpr (std::is_same_v<T, Bf16>) {
    if (!IsaHas(kAvx512Bf16)) return;
    SCOPED_TRACE("emulated tiles");
    body(TiledAttentionVariant<EmulatedTiles>());
    EXPECT_FALSE(attention_tiles<EmulatedTiles>.has_value()) << "not released";
    const TrappedTiles trapped;
    if (trapped.executed() == 0) body(BestAttentionVariant<T>());
    EXPECT_NE(trapped.executed(), 0) << "it does not take tiles";
  }
#endif
}

template <typename T>
class Problem {
 public:
  Problem(const AttentionShape& shape, double deviation, uint32_t seed, Scores scores = {})
      : shape_(shape),
        deviation_(deviation),
        scores_(scores),
        q_(OfQueries(deviation, seed)),
        k_(OfKeys(seed + 1)),
        v_(OfKeys(seed + 2)),
        dy_(OfQueries(1, seed + 3)) {}

  Exact Ideal() const { return {shape_, q_.InDouble(), k_.InDouble(), v_.InDouble(), scores_}; }
  const Tokens<T>& dy() const { return dy_; }
  HeadVectors<T> q() { return q_.View(); }

  struct Forward {
    Tokens<T> y;
    std::vector<float> logs;
  };
  Forward RunForward(const AttentionVariant<T>& variant, const ParallelFor& parallel_for) const {
    Forward made{OfQueries(1, 9),
                 std::vector<float>(Size(shape_.batch * shape_.query_heads() * shape_.queries) + 1, kUntouched)};
    Attention<T> work{.shape = shape_,
                      .q = q_.ConstView(),
                      .k = k_.ConstView(),
                      .v = v_.ConstView(),
                      .y = made.y.View(),
                      .log_sum_exp = made.logs.data(),
                      .scale = scores_.scale,
                      .cap = scores_.cap};
    std::vector<float> scratch(Size(ScratchFloatsWith(variant, work)) + 1, kUntouched);
    work.scratch = scratch.data();
    RunWith(variant, work, parallel_for);
    EXPECT_EQ(scratch.back(), kUntouched);
    EXPECT_EQ(made.logs.back(), kUntouched);
    return made;
  }

  struct Gradients {
    Tokens<T> dq, dk, dv;
  };
  Gradients RunGradient(const AttentionVariant<T>& variant, const ParallelFor& parallel_for) const {
    const Forward forward = RunForward(variant, parallel_for);
    Gradients made{OfQueries(1, 10), OfKeys(11), OfKeys(12)};
    AttentionGradient<T> work{.shape = shape_,
                              .q = q_.ConstView(),
                              .k = k_.ConstView(),
                              .v = v_.ConstView(),
                              .y = forward.y.ConstView(),
                              .log_sum_exp = forward.logs.data(),
                              .dy = dy_.ConstView(),
                              .dq = made.dq.View(),
                              .dk = made.dk.View(),
                              .dv = made.dv.View()};
    // Previous contents must not matter.
    std::vector<float> scratch(Size(ScratchFloatsWith(variant, work, parallel_for.threads())) + 1,
                               std::numeric_limits<float>::quiet_NaN());
    scratch.back() = kUntouched;
    work.scratch = scratch.data();
    RunWith(variant, work, parallel_for);
    EXPECT_EQ(scratch.back(), kUntouched);
    return made;
  }

  void CheckForward(const AttentionVariant<T>& variant, double tolerance,
                    const ParallelFor& parallel_for = SerialFor()) {
    if (!results_) results_ = Ideal().Results();
    constexpr double kMargin = 0.3;
    ExpectRows(RunForward(variant, parallel_for).y, *results_, tolerance, "y", [](const auto&) { return kMargin; });
  }

  // Within the tolerance of the row's elements, and of their factors' size.
  void CheckGradient(const AttentionVariant<T>& variant, double tolerance,
                     const ParallelFor& parallel_for = SerialFor()) {
    if (!gradients_) gradients_ = Ideal().GradientsFrom(dy_.InDouble());
    const auto sizes = [&](double factors) {
      return [this, factors](const std::vector<double>& row) {
        return std::sqrt(Dot(row, row) / static_cast<double>(shape_.head_dim)) + factors;
      };
    };
    const Gradients made = RunGradient(variant, parallel_for);
    ExpectRows(made.dv, gradients_->dv, tolerance, "dv", sizes(1));
    ExpectRows(made.dk, gradients_->dk, tolerance, "dk", sizes(deviation_));
    ExpectRows(made.dq, gradients_->dq, tolerance, "dq", sizes(1));
  }

 private:
  Tokens<T> OfQueries(double deviation, uint32_t seed) const {
    return {shape_.batch, shape_.queries, shape_.query_heads(), shape_.head_dim, deviation, seed};
  }
  Tokens<T> OfKeys(uint32_t seed) const { return {shape_.batch, shape_.keys, shape_.heads, shape_.head_dim, 1, seed}; }

  void ExpectRows(const Tokens<T>& actual, const Rows& expected, double tolerance, const char* name,
                  const std::function<double(const std::vector<double>&)>& margin) const {
    const Rows rows = actual.InDouble();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double size = margin(expected[i]);
      for (std::size_t column = 0; column < rows[i].size(); ++column) {
        const double error = std::abs(rows[i][column] - expected[i][column]);
        ASSERT_TRUE(error <= tolerance * (std::abs(expected[i][column]) + size))
            << shape_ << ": " << name << ", row " << i << ", column " << column << ": " << rows[i][column]
            << " instead of " << expected[i][column];
      }
    }
    actual.ExpectOtherDataUntouched();
  }

  AttentionShape shape_;
  double deviation_;  // of q
  Scores scores_;
  Tokens<T> q_, k_, v_, dy_;
  std::optional<Rows> results_;
  std::optional<Exact::Gradients> gradients_;
};

template <typename T>
class AttentionTest : public testing::Test {};
TYPED_TEST_SUITE(AttentionTest, FloatTypes);

TYPED_TEST(AttentionTest, RandomShapesOnEveryIsa) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < Trials(100); ++i) {
    Problem<TypeParam> problem(RandomShape(i, random), 1, i);
    const ThreadPool threads(i < Trials(10) ? 2 : 1);
    OnEveryVariant<TypeParam>(
        [&](const auto& variant) { problem.CheckForward(variant, kTolerance<TypeParam>, threads); });
  }
}

TYPED_TEST(AttentionTest, GradientsOfRandomShapesOnEveryIsa) {
  std::mt19937 random(2);
  for (uint32_t i = 0; i < Trials(60); ++i) {
    Problem<TypeParam> problem(RandomShape(i, random), 1, i);
    const ThreadPool threads(i < Trials(10) ? 2 : 1);
    OnEveryVariant<TypeParam>(
        [&](const auto& variant) { problem.CheckGradient(variant, kTolerance<TypeParam>, threads); });
  }
}

// Where scores have a bound, many are far above it.
TYPED_TEST(AttentionTest, ScoresMayHaveAnotherScaleAndABound) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < Trials(20); ++i) {
    const AttentionShape shape = RandomShape(i, random);
    const Scores scores = {i % 2 == 0 ? 0 : 0.2F, i % 3 == 0 ? 0 : 1.5F};
    Problem<TypeParam> problem(shape, i % 3 == 0 ? 1 : 4, i, scores);
    OnEveryVariant<TypeParam>([&](const auto& variant) { problem.CheckForward(variant, 2 * kTolerance<TypeParam>); });
  }
}

// One head: its keys are shared, and each share has a private dq. Several: more than threads, and fewer.
TYPED_TEST(AttentionTest, ThreadsShareHeadsAndKeysOfTheGradient) {
  for (const int64_t heads : {1, 3, 5}) {
    for (const bool causal : {true, false}) {
      Problem<TypeParam> problem(
          {.heads = heads, .group = 2, .queries = 150, .keys = 300, .head_dim = 24, .causal = causal}, 1, 3);
      for (const int threads : {1, 2, 3, 8}) {
        problem.CheckGradient(BestAttentionVariant<TypeParam>(), kTolerance<TypeParam>, ThreadPool(threads));
      }
    }
  }
}

TYPED_TEST(AttentionTest, QueriesBeforeTheFirstKeySeeNothing) {
  Problem<TypeParam> problem({.group = 2, .queries = 190, .keys = 20, .head_dim = 32, .causal = true}, 1, 1);
  OnEveryVariant<TypeParam>([&](const auto& variant) {
    problem.CheckForward(variant, kTolerance<TypeParam>);
    problem.CheckGradient(variant, kTolerance<TypeParam>);
  });
}

// Keys of a group of rows begin to see at either side of a panel's border, and other blocks have used the memory.
TYPED_TEST(AttentionTest, BlocksOfTheGradientDoNotMeet) {
  Problem<TypeParam> problem({.heads = 2, .queries = 250, .keys = 300, .head_dim = 24, .causal = true}, 1, 2);
  OnEveryVariant<TypeParam>([&](const auto& variant) { problem.CheckGradient(variant, kTolerance<TypeParam>); });
}

TYPED_TEST(AttentionTest, AnInfiniteQuerySpoilsNoOther) {
  constexpr int64_t kSpoilt = 190;
  Problem<TypeParam> problem({.queries = 200, .keys = 168, .head_dim = 16}, 1, 7);
  problem.q().At(0, 0, kSpoilt)[3] = FromDouble<TypeParam>(kInfinity);
  OnEveryVariant<TypeParam>([&](const auto& variant) {
    const Rows dq = problem.RunGradient(variant, SerialFor()).dq.InDouble();
    for (std::size_t i = 0; i < dq.size(); ++i) {
      for (const double value : dq[i]) EXPECT_EQ(std::isfinite(value), i != Size(kSpoilt)) << i;
    }
  });
}

// The largest score comes late, and with scores far apart a few keys have all the weight, and many have none.
TYPED_TEST(AttentionTest, SharpWeightsDoNotOverflow) {
  Problem<TypeParam> few({.queries = 3, .keys = 1100, .head_dim = 64}, 100, 5);
  Problem<TypeParam> many({.queries = 130, .keys = 300, .head_dim = 64, .causal = true}, 100, 5);
  OnEveryVariant<TypeParam>([&](const auto& variant) {
    few.CheckForward(variant, 20 * kTolerance<TypeParam>);
    many.CheckGradient(variant, 40 * kTolerance<TypeParam>);
  });
}

TYPED_TEST(AttentionTest, AnInfiniteQueryMakesNan) {
  OnEveryIsa([] {
    constexpr int64_t kDim = 16;
    std::vector<TypeParam> q = Normal<TypeParam>(kDim);
    q[3] = FromDouble<TypeParam>(kInfinity);
    const std::vector<TypeParam> k = Normal<TypeParam>(40 * kDim, 0, 1, 2);
    std::vector<TypeParam> results(82 * kDim);
    TypeParam* const y = results.data();
    const AttentionShape shape = {.queries = 1, .keys = 40, .head_dim = kDim};
    const HeadVectors<const TypeParam> queries = {q.data(), 0, 0, kDim};
    const HeadVectors<const TypeParam> keys = {k.data(), 0, 0, kDim};
    float log = 0;
    Attention<TypeParam> forward{
        .shape = shape, .q = queries, .k = keys, .v = keys, .y = {y, 0, 0, kDim}, .log_sum_exp = &log};
    std::vector<float> scratch(Size(ScratchFloats(forward)));
    forward.scratch = scratch.data();
    Run(forward, SerialFor());
    EXPECT_TRUE(std::isnan(log));
    AttentionGradient<TypeParam> backward{.shape = shape,
                                          .q = queries,
                                          .k = keys,
                                          .v = keys,
                                          .y = {y, 0, 0, kDim},
                                          .log_sum_exp = &log,
                                          .dy = keys,
                                          .dq = {y + kDim, 0, 0, kDim},
                                          .dk = {y + 2 * kDim, 0, 0, kDim},
                                          .dv = {y + 42 * kDim, 0, 0, kDim}};
    scratch.resize(Size(ScratchFloats(backward, 1)));
    backward.scratch = scratch.data();
    Run(backward, SerialFor());
    for (const TypeParam value : results) EXPECT_TRUE(std::isnan(ToFloat(value)));
  });
}

// The formulas themselves, checked by finite differences of the forward functions.
TEST(AttentionGradient, IsTheSlopeOfTheForwardPass) {
  const Problem<float> problem(
      {.batch = 2, .heads = 2, .group = 3, .queries = 7, .keys = 9, .head_dim = 5, .causal = true}, 1, 6);
  const Problem<float>::Gradients made = problem.RunGradient(BestAttentionVariant<float>(), SerialFor());
  const Rows dy = problem.dy().InDouble();
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
  expect_slopes(ideal.q, made.dq.InDouble());
  expect_slopes(ideal.k, made.dk.InDouble());
  expect_slopes(ideal.v, made.dv.InDouble());
}

}  // namespace
}  // namespace roofbench::kernels
