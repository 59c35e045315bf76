// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/transformer_model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "lib/aten/precision_scopes.h"
#include "lib/models/block/rotary_table.h"
#include "tests/models/race.h"
#include "tests/models/training/layer_tiles.h"

namespace roofbench::models {
namespace {

at::Tensor Normal(at::IntArrayRef shape) {
  static at::Generator generator = at::detail::createCPUGenerator(7);
  return at::randn(shape, generator, at::TensorOptions(at::kDouble));
}

// tests/oracles/test_transformer.py compares the model with PyTorch's.
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

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 3;
constexpr int64_t kHeadDim = 10;

struct Outcome {
  at::Tensor y;
  std::vector<at::Tensor> gradients;
};

// y, and the gradients of `inputs` for dy.
Outcome Attend(const std::vector<at::Tensor>& inputs, const at::Tensor& dy, at::ScalarType type, bool native) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.to(type).detach().requires_grad_(true));
  const RotaryTable rope(dy.size(1), kHeadDim, 10000, at::kCPU);
  const auto attention = (native ? NativeLayers() : EagerLayers()).attention;
  const at::Tensor y = attention(leaves[0], leaves[1], leaves[2], rope, kHeads, Attention::kSdpa);
  y.backward(dy.to(type));
  Outcome outcome{.y = y.detach(), .gradients = {}};
  for (const at::Tensor& leaf : leaves) outcome.gradients.push_back(leaf.grad());
  return outcome;
}

// The largest difference, in units of the largest expected value or of 1 (one token's scores have a gradient of zero).
double Error(const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_EQ(actual.sizes(), expected.sizes());
  return (actual.to(at::kDouble).sub(expected).abs().max().item<double>()) /
         std::max(1.0, expected.abs().max().item<double>());
}

// Tokens: within one block of the kernels, exactly one, and several of which the last is not full. Heads of keys: one
// for each of queries, and one for all.
class NativeAttentionTest : public testing::TestWithParam<std::tuple<int64_t, int64_t, at::ScalarType>> {};

TEST_P(NativeAttentionTest, AgreesWithLibTorchInDoublePrecision) {
  const auto [tokens, key_heads, type] = GetParam();
  at::Generator generator = at::detail::createCPUGenerator(5);
  std::vector<at::Tensor> inputs;
  for (const int64_t heads : {kHeads, key_heads, key_heads}) {
    // Rounded first, so that both sides start from the same numbers.
    inputs.push_back(at::randn({kBatch, tokens, heads * kHeadDim}, generator).to(type).to(at::kDouble));
  }
  const at::Tensor dy = at::randn({kBatch, tokens, kHeads * kHeadDim}, generator).to(type).to(at::kDouble);
  const Outcome own = Attend(inputs, dy, type, /*native=*/true);
  const Outcome expected = Attend(inputs, dy, at::kDouble, /*native=*/false);
  const double tolerance = type == at::kFloat ? 1e-5 : 0.03;
  EXPECT_EQ(own.y.scalar_type(), type);
  EXPECT_LT(Error(own.y, expected.y), tolerance);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(Error(own.gradients[i], expected.gradients[i]), tolerance) << i;
}

INSTANTIATE_TEST_SUITE_P(TokensAndTypes, NativeAttentionTest,
                         testing::Combine(testing::Values(1, 40, 128, 300), testing::Values(kHeads, 1),
                                          testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& instance) {
                           return std::to_string(std::get<0>(instance.param)) + "Over" +
                                  std::to_string(std::get<1>(instance.param)) +
                                  (std::get<2>(instance.param) == at::kFloat ? "Fp32" : "Bf16");
                         });

enum class Products { kFp32, kAutocast, kAutocastByTiles };
class NativeLinearGeluTest : public testing::TestWithParam<Products> {};

TEST_P(NativeLinearGeluTest, IsLibTorchsLayerWithItsGradients) {
  const bool autocast = GetParam() != Products::kFp32;
  const EmulatedLayerTiles tiles(GetParam() == Products::kAutocastByTiles);
  const at::AutoGradMode grad(true);
  for (const bool wants_gradient : {true, false}) {
    at::Tensor x = at::randn({18, 24}).requires_grad_(wants_gradient);
    at::Tensor weight = at::randn({16, 24}).mul_(0.2).requires_grad_(true);
    at::Tensor bias = at::randn({16}).requires_grad_(true);
    const at::Tensor dy = at::randn({18, 16});
    const auto results = [&](const auto& layer) {
      for (at::Tensor* const leaf : {&x, &weight, &bias}) leaf->mutable_grad().reset();
      at::Tensor y;
      {
        const Autocast guard(autocast, at::kCPU);
        y = layer();
      }
      EXPECT_EQ(y.scalar_type(), autocast ? at::kBFloat16 : at::kFloat);
      y.backward(dy.to(y.scalar_type()));
      return std::vector<at::Tensor>{y.detach().to(at::kFloat), weight.grad(), bias.grad(), x.grad()};
    };
    const std::vector<at::Tensor> own = results([&] { return NativeLinearGelu(x, weight, bias); });
    const std::vector<at::Tensor> eager = results([&] { return at::gelu(at::linear(x, weight, bias)); });
    EXPECT_EQ(own.back().defined(), wants_gradient);
    EXPECT_EQ(tiles.Products(), GetParam() != Products::kAutocastByTiles ? 0 : wants_gradient ? 3 : 3 + 2);
    const double tolerance = autocast ? 0.05 : 1e-4;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!eager[i].defined()) continue;
      EXPECT_EQ(own[i].scalar_type(), eager[i].scalar_type()) << i;
      EXPECT_TRUE(at::allclose(own[i], eager[i], tolerance, tolerance)) << i;
    }
  }
}

TEST(FastestLinearGelu, TakesLibTorchsWhereItIsFaster) {
  const at::AutoGradMode grad(true);
  const auto step = [](const auto& layer) {
    at::Tensor x = at::ones({18, 24}).requires_grad_(true);
    at::Tensor y;
    {
      const Autocast guard(true, at::kCPU);
      y = layer(x, at::ones({16, 24}).requires_grad_(true), at::ones({16}).requires_grad_(true));
    }
    y.sum().backward();
  };
  for (const bool ours : {true, false}) {
    Race race(ours);
    const EmulatedLayerTiles tiles(/*on=*/true, race.choice());
    step(NativeLinearGelu);
    EXPECT_EQ(race.runs(), 0);
    EXPECT_EQ(tiles.Products(), 3);
    step(FastestLinearGelu);
    EXPECT_EQ(tiles.Products(), ours ? 6 : 3);
    EXPECT_EQ(tiles.LibraryProducts(), ours ? 0 : 3);
  }
}

constexpr const char* kProductNames[] = {"Fp32", "Autocast", "AutocastByTiles"};

INSTANTIATE_TEST_SUITE_P(Each, NativeLinearGeluTest,
                         testing::Values(Products::kFp32, Products::kAutocast, Products::kAutocastByTiles),
                         [](const auto& instance) { return kProductNames[static_cast<int>(instance.param)]; });

}  // namespace
}  // namespace roofbench::models
