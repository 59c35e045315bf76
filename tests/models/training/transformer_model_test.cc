// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/transformer_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lib/models/decoding/rotary_table.h"

namespace roofbench::models {
namespace {

at::Tensor Normal(at::IntArrayRef shape) {
  static at::Generator generator = at::detail::createCPUGenerator(7);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble));
}

TEST(RmsNorm, ByItsFormula) {
  const at::Tensor x = Normal({3, 16});
  const at::Tensor weight = Normal({16});
  const at::Tensor expected = x / (x.square().mean(-1, /*keepdim=*/true) + 1e-5).sqrt() * weight;
  EXPECT_TRUE(at::allclose(RmsNorm(x, weight), expected, 1e-12));
}

TEST(Heads, SplitAndMergeAreInverse) {
  const at::Tensor x = Normal({2, 5, 12});
  const at::Tensor heads = SplitHeads(x, 3);
  EXPECT_EQ(heads.sizes(), (at::IntArrayRef{2, 3, 5, 4}));
  EXPECT_TRUE(heads[1][2][3].equal(x[1][3].narrow(0, 8, 4)));
  EXPECT_TRUE(MergeHeads(heads).equal(x));
}

TEST(CausalAttention, NaiveAndSdpaAgree) {
  const at::Tensor q = Normal({2, 3, 7, 8});
  const at::Tensor k = Normal({2, 3, 7, 8});
  const at::Tensor v = Normal({2, 3, 7, 8});
  const at::Tensor naive = CausalAttention(q, k, v, Attention::kNaive);
  EXPECT_TRUE(at::allclose(CausalAttention(q, k, v, Attention::kSdpa), naive, 1e-10));
  // The first token sees itself alone, and no token sees a later one.
  EXPECT_TRUE(at::allclose(naive.select(2, 0), v.select(2, 0)));
  at::Tensor other = v.clone();
  other.select(2, 6).fill_(100);
  EXPECT_TRUE(CausalAttention(q, k, other, Attention::kNaive).narrow(2, 0, 6).equal(naive.narrow(2, 0, 6)));
}

TEST(Rope, ScoresDependOnDistanceAlone) {
  const RotaryTable rope(64, 8, 10000, at::kCPU);
  const at::Tensor q = Normal({1, 8}).expand({64, 8});
  const at::Tensor k = Normal({1, 8}).expand({64, 8});
  const at::Tensor scores = at::mm(rope.Rotate(q), rope.Rotate(k).t());
  EXPECT_TRUE(at::allclose(scores.diagonal(3), scores[0][3].expand({61}), 1e-5, 1e-5));
  EXPECT_GT((scores[0].max() - scores[0].min()).item<double>(), 0.1);
}

TEST(Rope, TurnsThePairsOfTheTwoHalves) {
  const RotaryTable rope(16, 4, 100, at::kCPU);
  const at::Tensor x = Normal({1, 4});
  const at::Tensor turned = rope.Rotate(x, 5);
  for (int64_t i = 0; i < 2; ++i) {
    const double angle = 5 * std::pow(100.0, -2.0 * static_cast<double>(i) / 4);
    const double a = x[0][i].item<double>();
    const double b = x[0][i + 2].item<double>();
    EXPECT_NEAR(turned[0][i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-6);
    EXPECT_NEAR(turned[0][i + 2].item<double>(), b * std::cos(angle) + a * std::sin(angle), 1e-6);
  }
}

}  // namespace
}  // namespace roofbench::models
