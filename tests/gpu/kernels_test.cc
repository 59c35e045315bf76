// SPDX-License-Identifier: Apache-2.0
// Our own kernels with small buffers, compared with LibTorch's on the GPU; also run by compute-sanitizer, which takes
// the tests whose names begin with KernelsTest.

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "lib/hardware/roofs/gpu_roof_meter.h"
#include "lib/kernels/cuda/gpu_kernels.h"
#include "tests/gpu/gpu_test.h"

namespace roofbench {
namespace {

using kernels::GpuKernels;
using kernels::RowType;
using kernels::WeightType;

constexpr float kEpsilon = 1e-5F;
// Columns that fill a warp, a block, all registers of a block, and odd remainders.
constexpr int64_t kColumns[] = {8, 56, 256, 2048, 4096, 8200, 32768};

class KernelsTest : public GpuTest {};

TEST_F(KernelsTest, StreamsAreRight) {
  constexpr double kSmallL2 = 1 << 18;
  constexpr double kSmallMemory = 64 << 20;
  hardware::GpuRoofMeter meter(gpu().streams(), kSmallL2, kSmallMemory);
  EXPECT_EQ(meter.CheckStreams(), "");
  // A few passes in memory and in a cache, as probes use them.
  EXPECT_GT(meter.MeasureMemory({.read = 1, .copy = 1, .update = 1, .write = 1}, 1e-4), 0);
  EXPECT_GT(meter.MeasureCache({.read = 1, .copy = 1, .update = 1, .write = 1}, kSmallL2 / 2, 1e-4), 0);
}

TEST_F(KernelsTest, SpinEnds) {
  gpu().Spin(1e-3);
  gpu().Synchronize();
}

class KernelsTestNative : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    table_ = static_cast<const GpuKernels*>(gpu().Export(kernels::kGpuKernelsSymbol));
    ASSERT_NE(table_, nullptr);
    ASSERT_EQ(table_->version, kernels::kGpuKernelsVersion);
  }

  static void* Stream() { return gpu().Stream(); }
  static at::Tensor Randn(at::IntArrayRef shape, at::ScalarType type, double mean = 0) {
    return at::randn(shape, at::TensorOptions(device().torch_device())).add_(mean).to(type);
  }
  static at::ScalarType Storage(RowType type) { return type == RowType::kFp32 ? at::kFloat : at::kBFloat16; }
  // Half a unit in the last place of the result, and the error of fp32 sums.
  static double Tolerance(at::ScalarType type) { return type == at::kFloat ? 2e-5 : 8e-3; }
  static void ExpectNear(const at::Tensor& actual, const at::Tensor& exact, const std::string& what) {
    const double scale = exact.abs().max().item<double>();
    EXPECT_GT(scale, 0) << what << ": nothing is compared with zeros";
    const double error = actual.to(at::kDouble).sub(exact).abs().max().item<double>();
    EXPECT_LE(error, Tolerance(actual.scalar_type()) * scale) << what;
  }

  const GpuKernels* table_ = nullptr;
};

TEST_F(KernelsTestNative, NormsAndSoftmax) {
  for (const RowType type : {RowType::kFp32, RowType::kBf16}) {
    for (const int64_t cols : kColumns) {
      const int64_t rows = 37;
      const std::string what = "columns " + std::to_string(cols) + (type == RowType::kFp32 ? " fp32" : " bf16");
      const at::Tensor x = Randn({rows, cols}, Storage(type), 3);
      const at::Tensor weight = Randn({cols}, at::kFloat, 1);
      const at::Tensor bias = Randn({cols}, at::kFloat);
      const at::Tensor exact = x.to(at::kDouble);
      at::Tensor y = at::zeros_like(x);

      ASSERT_EQ(
          table_->rms_norm(type, y.data_ptr(), x.data_ptr(), weight.data_ptr<float>(), rows, cols, kEpsilon, Stream()),
          0);
      const at::Tensor rms = exact.square().mean(-1, true).add(kEpsilon).sqrt();
      ExpectNear(y, exact.div(rms).mul(weight.to(at::kDouble)), "rms_norm " + what);

      ASSERT_EQ(table_->layer_norm(type, y.data_ptr(), x.data_ptr(), weight.data_ptr<float>(), bias.data_ptr<float>(),
                                   rows, cols, kEpsilon, Stream()),
                0);
      ExpectNear(y, at::layer_norm(exact, {cols}, weight.to(at::kDouble), bias.to(at::kDouble), kEpsilon),
                 "layer_norm " + what);

      for (const double shift : {0, -300}) {  // far below zero, too
        const at::Tensor shifted = x.add(shift);
        ASSERT_EQ(table_->softmax(type, y.data_ptr(), shifted.data_ptr(), rows, cols, Stream()), 0);
        ExpectNear(y, at::softmax(shifted.to(at::kDouble), -1), "softmax " + what);
      }
    }
  }
}

TEST_F(KernelsTestNative, Gemv) {
  for (const int64_t cols : {int64_t{8}, int64_t{264}, int64_t{4096}}) {
    for (const int64_t rows : {int64_t{1}, int64_t{13}, int64_t{512}}) {
      const std::string what = std::to_string(rows) + " x " + std::to_string(cols);
      for (const auto& [type, storage] :
           {std::pair(WeightType::kFp32, at::kFloat), {WeightType::kBf16, at::kBFloat16}}) {
        const at::Tensor w = Randn({rows, cols}, storage);
        const at::Tensor x = Randn({cols}, storage);
        const at::Tensor y = at::zeros({rows}, x.options());
        ASSERT_EQ(table_->gemv({.type = type,
                                .weight = w.data_ptr(),
                                .x = x.data_ptr(),
                                .y = y.data_ptr(),
                                .rows = rows,
                                .cols = cols},
                               Stream()),
                  0);
        ExpectNear(y, w.to(at::kDouble).mv(x.to(at::kDouble)), "gemv " + what);
      }
    }
  }
}

TEST_F(KernelsTestNative, Int8Gemv) {
  for (const auto& [cols, most] : {std::pair(int64_t{8}, 1), {264, 1}, {272, kernels::kMostGemvBatch}, {4096, 5}}) {
    for (int batch = 1; batch <= most; ++batch) {
      constexpr int64_t kRows = 13;
      const at::Tensor q =
          at::randint(-128, 128, {kRows, cols}, at::TensorOptions(device().torch_device()).dtype(at::kChar));
      const at::Tensor scale = Randn({kRows}, at::kFloat);
      const at::Tensor x = Randn({batch, cols}, at::kBFloat16);
      const at::Tensor y = at::zeros({batch, kRows}, x.options());
      ASSERT_EQ(table_->gemv({.type = WeightType::kInt8,
                              .weight = q.data_ptr(),
                              .scale = scale.data_ptr(),
                              .x = x.data_ptr(),
                              .y = y.data_ptr(),
                              .rows = kRows,
                              .cols = cols,
                              .batch = batch},
                             Stream()),
                0);
      ExpectNear(y, x.to(at::kDouble).mm(q.to(at::kDouble).t()).mul(scale.to(at::kDouble)),
                 "int8 gemv of " + std::to_string(cols) + " columns, batch " + std::to_string(batch));
    }
  }
}

TEST_F(KernelsTestNative, Int4GemvOfChosenExperts) {
  constexpr int64_t kExperts = 8;
  constexpr int64_t kRows = 24;
  constexpr int64_t kCols = 256;
  constexpr int64_t kGroup = 32;
  const auto on_device = at::TensorOptions(device().torch_device());
  const at::Tensor q = at::randint(0, 16, {kExperts, kRows, kCols}, on_device.dtype(at::kByte));
  const at::Tensor packed = q.slice(2, 0, kCols, 2).bitwise_or(q.slice(2, 1, kCols, 2).mul(16)).contiguous();
  const at::Tensor scale = Randn({kExperts, kRows, kCols / kGroup}, at::kBFloat16);
  const at::Tensor zero = Randn({kExperts, kRows, kCols / kGroup}, at::kBFloat16);
  const at::Tensor x = Randn({kCols}, at::kBFloat16);
  const at::Tensor experts = at::tensor({3, 5}, at::kLong).to(device().torch_device());
  const at::Tensor y = at::zeros({2, kRows}, x.options());
  ASSERT_EQ(table_->gemv({.type = WeightType::kInt4,
                          .weight = packed.data_ptr(),
                          .scale = scale.data_ptr(),
                          .zero = zero.data_ptr(),
                          .x = x.data_ptr(),
                          .y = y.data_ptr(),
                          .rows = kRows,
                          .cols = kCols,
                          .group = kGroup,
                          .chosen = 2,
                          .experts = experts.data_ptr<int64_t>()},
                         Stream()),
            0);
  const auto spread = [](const at::Tensor& t) { return t.to(at::kDouble).repeat_interleave(kGroup, 2); };
  const at::Tensor exact = q.to(at::kDouble).sub(8).mul(spread(scale)).add(spread(zero));
  ExpectNear(y, exact.index_select(0, experts).matmul(x.to(at::kDouble)), "int4 gather");
}

}  // namespace
}  // namespace roofbench
