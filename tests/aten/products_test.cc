// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/products.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/products/gemv.h"

namespace roofbench {
namespace {

using kernels::Bf16;

constexpr int64_t kMatrices = 3;
constexpr int64_t kRows = 48;
constexpr int64_t kColumns = 192;
constexpr int64_t kGroup = 64;

class Int4LayoutsTest : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    codes_ = at::randint(0, 16, {kMatrices, kRows, kColumns}, at::TensorOptions(at::kByte));
    scales_zeros_ = at::randn({kMatrices, kRows, kColumns / kGroup, 2}).to(at::kBFloat16);
    x_ = at::randn({1, kColumns}).to(at::kBFloat16);
  }

  // Whether y is x times the matrix, but for roundings to bf16.
  void ExpectProduct(const at::Tensor& y, int64_t matrix) const {
    const at::Tensor spread = scales_zeros_[matrix].to(at::kDouble).repeat_interleave(kGroup, 1);
    const at::Tensor weight = (codes_[matrix].to(at::kDouble) - 8) * spread.select(2, 0) + spread.select(2, 1);
    const at::Tensor exact = at::matmul(x_.to(at::kDouble), weight.t());
    EXPECT_LT((y.to(at::kDouble) - exact).abs().max().item<double>(), 0.02 * exact.abs().max().item<double>())
        << "matrix " << matrix;
  }

  at::Tensor codes_, scales_zeros_, x_;
};

TEST_F(Int4LayoutsTest, MatchesLibTorchsOperator) {
  const at::Tensor packed = PackInt4ForTorch(codes_, at::kCPU);
  for (int64_t i = 0; i < kMatrices; ++i) {
    ExpectProduct(at::_weight_int4pack_mm_for_cpu(x_, packed[i], kGroup, scales_zeros_[i].transpose(0, 1).contiguous()),
                  i);
  }
}

TEST_F(Int4LayoutsTest, MatchesOurCpuKernel) {
  const kernels::ThreadPool pool(2);
  const at::Tensor packed = PackInt4ForCpu(codes_, scales_zeros_, kGroup, pool);
  const kernels::Int4Weight first{reinterpret_cast<const std::byte*>(Elements<uint8_t>(packed)), kRows, kColumns,
                                  kGroup};
  for (int64_t i = 0; i < kMatrices; ++i) {
    const at::Tensor y = at::empty({1, kRows}, at::kBFloat16);
    kernels::Run(kernels::Gemv<kernels::Int4Weight, Bf16, Bf16>{kernels::Expert(first, i), Elements<Bf16>(x_),
                                                                Elements<Bf16>(y)},
                 pool);
    ExpectProduct(y, i);
  }
}

TEST_F(Int4LayoutsTest, PutsTheEvenColumnInTheLowBitsForAGpu) {
  const at::Tensor packed = PackInt4ForGpu(codes_);
  const at::Tensor unpacked = at::stack({packed.bitwise_and(15), packed.div(16, "floor")}, -1);
  EXPECT_TRUE(unpacked.view({kMatrices, kRows, kColumns}).equal(codes_));
}

// Full and partial tiles, panels and slabs.
class ProductsByTiles : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t>> {
 protected:
  static at::Tensor Draw(int64_t rows, int64_t columns) { return at::randn({rows, columns}).to(at::kBFloat16); }
  // Half a unit of `y`'s type, and the sums in fp32.
  static void ExpectProduct(const at::Tensor& y, const at::Tensor& left, const at::Tensor& right) {
    const at::Tensor exact = at::matmul(left.to(at::kDouble), right.to(at::kDouble));
    const double rounding = y.scalar_type() == at::kFloat ? 0 : 0x1p-8;
    EXPECT_TRUE(at::allclose(y.to(at::kDouble), exact, rounding, 1e-5 * static_cast<double>(left.size(1))));
  }

  const kernels::TileLinearKernels& tiles_ = kernels::kTileLinearKernels<kernels::EmulatedTiles>;
  const kernels::ThreadPool pool_{2};
};

TEST_P(ProductsByTiles, AreThoseOfALinearLayer) {
  const auto [m, n, k] = GetParam();
  at::manual_seed(1);
  const at::Tensor x = Draw(m, k);
  const at::Tensor weight = Draw(n, k);
  const at::Tensor dy = Draw(m, n);
  ExpectProduct(LinearByTiles(&tiles_)(x, weight, std::nullopt, pool_), x, weight.t());
  for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
    const at::Tensor dx = MatmulByTiles(tiles_, dy, weight, type, pool_);
    EXPECT_EQ(dx.scalar_type(), type);
    ExpectProduct(dx, dy, weight);
    ExpectProduct(MatmulByTiles(tiles_, dy.t(), x, type, pool_), dy.t(), x);
  }
}

// Neither a matrix nor its transpose lies without gaps.
TEST_P(ProductsByTiles, TakeMatricesWithGaps) {
  const auto [m, n, k] = GetParam();
  const at::Tensor x = Draw(m, k + 1).narrow(1, 1, k);
  const at::Tensor w = Draw(n, k).t();
  ExpectProduct(MatmulByTiles(tiles_, x, w, at::kFloat, pool_), x, w);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ProductsByTiles,
                         testing::Values(std::tuple(16, 32, 32), std::tuple(17, 33, 70), std::tuple(33, 50, 31),
                                         std::tuple(70, 16, 17), std::tuple(1, 5, 3), std::tuple(520, 17, 40),
                                         std::tuple(40, 520, 33),
                                         std::tuple(16, 1040, 520)));  // a gradient that passes the caches

}  // namespace
}  // namespace roofbench
