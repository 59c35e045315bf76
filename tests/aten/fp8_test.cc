// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/fp8.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "lib/aten/random.h"

namespace roofbench {
namespace {

at::Tensor Dequantized(const Fp8Matrix& matrix) { return matrix.data.to(at::kDouble) * matrix.scale.to(at::kDouble); }

class QuantizeFp8Test : public testing::TestWithParam<at::ScalarType> {};

// Rows of different sizes: of one scale per tensor, small rows lose what a scale per row keeps.
TEST_P(QuantizeFp8Test, KeepsFourBitsOfEveryNumber) {
  at::Tensor x = at::randn({6, 64}, NewGenerator(at::kCPU, 1)).to(GetParam());
  x[1].mul_(1e-4);
  x[2].mul_(1e4);
  const at::Tensor before = x.clone();
  const at::Tensor exact = x.to(at::kDouble);
  for (const Fp8Scales scales : {Fp8Scales::kRows, Fp8Scales::kTensor}) {
    const Fp8Matrix quantized = QuantizeFp8(x, scales);
    EXPECT_EQ(quantized.data.scalar_type(), at::kFloat8_e4m3fn);
    EXPECT_EQ(quantized.scale.sizes(), at::IntArrayRef({scales == Fp8Scales::kRows ? 6 : 1, 1}));
    EXPECT_EQ(quantized.data.to(at::kDouble).abs().max().item<double>(), kFp8Largest);
    const at::Tensor step = quantized.scale.to(at::kDouble) * 0x1p-9;  // of the smallest numbers
    const at::Tensor bound = exact.abs() * 0x1p-4 + step;
    EXPECT_TRUE((Dequantized(quantized) - exact).abs().le(bound).all().item<bool>());
  }
  const at::Tensor by_row = QuantizeFp8(x, Fp8Scales::kRows).data.to(at::kDouble).abs().amax({1});
  EXPECT_TRUE(by_row.eq(kFp8Largest).all().item<bool>()) << by_row;
  EXPECT_TRUE(at::equal(x, before));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizeFp8Test, testing::Values(at::kFloat, at::kBFloat16));

TEST(QuantizeFp8, ZerosStayZeros) {
  for (const Fp8Scales scales : {Fp8Scales::kRows, Fp8Scales::kTensor}) {
    const at::Tensor exact = Dequantized(QuantizeFp8(at::zeros({2, 16}), scales));
    EXPECT_TRUE(exact.eq(0).all().item<bool>()) << exact;
  }
}

TEST(ScaledMm, MultipliesByBothScales) {
  const at::Generator generator = NewGenerator(at::kCPU, 1);
  const at::Tensor a = at::randint(-3, 4, {5, 16}, generator).to(at::kFloat);
  const at::Tensor b = at::randint(-3, 4, {32, 16}, generator).to(at::kFloat).t();
  at::Tensor y = at::zeros({5, 32}, at::kBFloat16);
  ScaledMmOut(y, a.to(at::kFloat8_e4m3fn), b.t().to(at::kFloat8_e4m3fn).t(), at::full({1, 1}, 0.5),
              at::full({1, 1}, 0.25));
  // Sums of up to 144 are exact in bf16.
  EXPECT_TRUE(at::equal(y.to(at::kFloat), at::mm(a, b) * 0.125));
}

TEST(ScaledMm, IsRefusedWhereLibTorchRefusesIt) {
  EXPECT_EQ(ScaledMmRefuses(Fp8Scales::kTensor, 3, 5, /*on_gpu=*/false), nullptr);
  EXPECT_NE(ScaledMmRefuses(Fp8Scales::kRows, 16, 16, /*on_gpu=*/false), nullptr);
  const at::Tensor square = at::ones({16, 16}).to(at::kFloat8_e4m3fn);
  at::Tensor y = at::zeros({16, 16}, at::kBFloat16);
  EXPECT_ANY_THROW(ScaledMmOut(y, square, square.t(), at::ones({16, 1}), at::ones({1, 16})))
      << "this LibTorch has scales of rows on processors: take them";
  for (const Fp8Scales scales : {Fp8Scales::kTensor, Fp8Scales::kRows}) {
    EXPECT_EQ(ScaledMmRefuses(scales, 16, 32, /*on_gpu=*/true), nullptr);
    EXPECT_NE(ScaledMmRefuses(scales, 24, 32, /*on_gpu=*/true), nullptr);
    EXPECT_NE(ScaledMmRefuses(scales, 16, 40, /*on_gpu=*/true), nullptr);
  }
}

}  // namespace
}  // namespace roofbench
