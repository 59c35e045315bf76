// SPDX-License-Identifier: Apache-2.0
#include "lib/models/training/native_layers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lib/aten/autocast.h"

namespace roofbench::models {
namespace {

class NativeLinearGeluTest : public testing::TestWithParam<bool> {};

TEST_P(NativeLinearGeluTest, IsLibTorchsLayerWithItsGradients) {
  const bool autocast = GetParam();
  const at::AutoGradMode grad(true);
  for (const bool wants_gradient : {true, false}) {
    at::Tensor x = at::randn({6, 24}).requires_grad_(wants_gradient);
    at::Tensor weight = at::randn({16, 24}).mul_(0.2).requires_grad_(true);
    at::Tensor bias = at::randn({16}).requires_grad_(true);
    const at::Tensor dy = at::randn({6, 16});
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
    const double tolerance = autocast ? 0.05 : 1e-4;
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!eager[i].defined()) continue;
      EXPECT_EQ(own[i].scalar_type(), eager[i].scalar_type()) << i;
      EXPECT_TRUE(at::allclose(own[i], eager[i], tolerance, tolerance)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, NativeLinearGeluTest, testing::Bool(),
                         [](const auto& instance) { return instance.param ? "Autocast" : "Fp32"; });

}  // namespace
}  // namespace roofbench::models
