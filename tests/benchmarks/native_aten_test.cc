// SPDX-License-Identifier: Apache-2.0
// Native kernels compared with LibTorch's operators, on ordinary data and on data with infinities and NaNs, and
// weight-only products on the same quantized weights.

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include <limits>

#include "lib/aten/elements.h"
#include "lib/kernels/operators/elementwise/activations.h"
#include "lib/kernels/operators/elementwise/adamw.h"
#include "lib/kernels/operators/elementwise/data_movement.h"
#include "lib/kernels/operators/elementwise/rope.h"
#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/operators/rows/norm.h"
#include "lib/kernels/operators/rows/softmax.h"
#include "lib/models/decoding/rotary_table.h"
#include "lib/suite/check.h"

namespace roofbench {
namespace {

constexpr int64_t kRows = 6;
constexpr int64_t kCols = 83;

// Not in a fixture, where Run is the test's own.
template <typename Work>
void RunOnTwo(const Work& work) {
  Run(work, kernels::ThreadPool(2));
}

template <typename T>
class SameAsLibTorch : public testing::Test {
 protected:
  // LibTorch sums in bf16, where some numbers, and some parts of a sum, lose more digits than others: the same ones
  // every time, whatever a test before this one has set.
  void SetUp() override {
    at::manual_seed(1);
    at::set_num_threads(2);
  }

  static constexpr bool kIsBf16 = sizeof(T) == 2;
  static constexpr at::ScalarType kType = kIsBf16 ? at::kBFloat16 : at::kFloat;

  static at::Tensor Randn(at::IntArrayRef shape) { return at::randn(shape).to(kType); }
  static at::Tensor Empty(at::IntArrayRef shape) { return at::full(shape, 7, at::TensorOptions(kType)); }

  // The three special values in rows 1 to 3, and a row of -infinity alone.
  static at::Tensor Special(at::Tensor x) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    x.select(0, 1).select(0, 5).fill_(kInfinity);
    x.select(0, 2).select(0, kCols - 1).fill_(-kInfinity);
    x.select(0, 3).select(0, 40).fill_(std::numeric_limits<float>::quiet_NaN());
    x.select(0, 4).fill_(-kInfinity);
    return x;
  }

  // The same class everywhere, and where both are finite the same number but for roundings of a result (and, where
  // LibTorch rounds on the way, `steps` of them).
  static void ExpectSame(const at::Tensor& ours, const at::Tensor& theirs, double steps = 2) {
    const at::Tensor a = ours.to(at::kDouble).contiguous().view({-1});
    const at::Tensor b = theirs.to(at::kDouble).contiguous().view({-1});
    ASSERT_EQ(a.numel(), b.numel());
    const double rounding = kIsBf16 ? 0x1p-8 : 0x1p-18;
    for (int64_t i = 0; i < a.numel(); ++i) {
      const double x = a.data_ptr<double>()[i];
      const double y = b.data_ptr<double>()[i];
      ASSERT_EQ(std::isnan(x), std::isnan(y)) << "element " << i << ": " << x << " instead of " << y;
      if (std::isnan(x)) continue;
      if (std::isinf(x) || std::isinf(y)) {
        ASSERT_EQ(x, y) << "element " << i;
        continue;
      }
      ASSERT_NEAR(x, y, steps * rounding * (std::abs(y) + 0.05)) << "element " << i;
    }
  }
};

using Types = testing::Types<float, kernels::Bf16>;
TYPED_TEST_SUITE(SameAsLibTorch, Types);

TYPED_TEST(SameAsLibTorch, Norms) {
  for (const bool special : {false, true}) {
    at::Tensor x = this->Randn({kRows, kCols});
    if (special) x = this->Special(x);
    const at::Tensor weight = at::randn({kCols});
    const at::Tensor bias = at::randn({kCols});
    const at::Tensor y = this->Empty({kRows, kCols});
    RunOnTwo(kernels::LayerNorm<TypeParam>{.x = Elements<TypeParam>(x),
                                           .y = Elements<TypeParam>(y),
                                           .weight = Elements<float>(weight),
                                           .bias = Elements<float>(bias),
                                           .rows = kRows,
                                           .cols = kCols});
    this->ExpectSame(y, std::get<0>(at::native_layer_norm(x, {kCols}, weight, bias, 1e-5)));
    RunOnTwo(kernels::RmsNorm<TypeParam>{.x = Elements<TypeParam>(x),
                                         .y = Elements<TypeParam>(y),
                                         .weight = Elements<float>(weight),
                                         .rows = kRows,
                                         .cols = kCols});
    this->ExpectSame(y, at::rms_norm(x, {kCols}, weight, 1e-6));
  }
}

TYPED_TEST(SameAsLibTorch, LayerNormGradients) {
  for (const bool special : {false, true}) {
    const at::Tensor x = this->Randn({kRows, kCols});
    at::Tensor dy = this->Randn({kRows, kCols});
    if (special) dy = this->Special(dy);
    const at::Tensor weight = at::randn({kCols});
    const at::Tensor bias = at::randn({kCols});
    const auto [y, mean, rstd] = at::native_layer_norm(x, {kCols}, weight, bias, 1e-5);
    const at::Tensor dx = this->Empty({kRows, kCols});
    const at::Tensor dweight = at::empty({kCols});
    const at::Tensor dbias = at::empty({kCols});
    const at::Tensor scratch = at::empty({2, 2, kCols});
    RunOnTwo(kernels::NormGradient<TypeParam>{.x = Elements<TypeParam>(x),
                                              .dy = Elements<TypeParam>(dy),
                                              .weight = Elements<float>(weight),
                                              .mean = Elements<float>(mean),
                                              .rstd = Elements<float>(rstd),
                                              .dx = Elements<TypeParam>(dx),
                                              .dweight = Elements<float>(dweight),
                                              .dbias = Elements<float>(dbias),
                                              .scratch = Elements<float>(scratch),
                                              .rows = kRows,
                                              .cols = kCols});
    const auto [their_dx, their_dweight, their_dbias] =
        at::native_layer_norm_backward(dy, x, {kCols}, mean, rstd, weight, bias, {true, true, true});
    // Infinite terms of opposite sign are a NaN or not by the order of a sum: only that nothing is finite is sure.
    const auto spoilt_alike = [&](const at::Tensor& mine, const at::Tensor& reference) {
      ASSERT_TRUE(mine.isfinite().equal(reference.isfinite()));
      // LibTorch sums columns in the precision of x.
      this->ExpectSame(mine.masked_select(mine.isfinite()), reference.masked_select(reference.isfinite()), 32);
    };
    spoilt_alike(dx, their_dx);
    spoilt_alike(dweight, their_dweight);
    spoilt_alike(dbias, their_dbias);
  }
}

TYPED_TEST(SameAsLibTorch, Softmax) {
  for (const bool special : {false, true}) {
    at::Tensor x = this->Randn({kRows, kCols});
    if (special) x = this->Special(x);
    const at::Tensor y = this->Empty({kRows, kCols});
    RunOnTwo(kernels::Softmax<TypeParam>{
        .x = Elements<TypeParam>(x), .y = Elements<TypeParam>(y), .rows = kRows, .cols = kCols});
    this->ExpectSame(y, at::_softmax(x, 1, false));
  }
}

TYPED_TEST(SameAsLibTorch, CrossEntropy) {
  for (const bool special : {false, true}) {
    at::Tensor x = this->Randn({kRows, kCols});
    if (special) x = this->Special(x);
    const at::Tensor target = at::randint(kCols, {kRows}, at::TensorOptions(at::kLong));
    target.select(0, 2).fill_(kCols - 1);  // the class that is impossible
    const at::Tensor loss = at::empty({kRows});
    const at::Tensor gradient = this->Empty({kRows, kCols});
    RunOnTwo(kernels::CrossEntropy<TypeParam>{.x = Elements<TypeParam>(x),
                                              .target = Elements<int64_t>(target),
                                              .loss = Elements<float>(loss),
                                              .gradient = Elements<TypeParam>(gradient),
                                              .scale = 0.5F,
                                              .rows = kRows,
                                              .cols = kCols});
    const at::Tensor logs = at::_log_softmax(x, 1, false);
    const auto [their_loss, weight] = at::nll_loss_forward(logs, target, {}, 0, -100);
    this->ExpectSame(loss, their_loss);
    const at::Tensor of_logs =
        at::nll_loss_backward(at::full({kRows}, 0.5, x.options()), logs, target, {}, 0, -100, weight);
    this->ExpectSame(gradient, at::_log_softmax_backward_data(of_logs, logs, 1, x.scalar_type()), 4);
  }
}

TYPED_TEST(SameAsLibTorch, Activations) {
  const at::Tensor x = this->Special(this->Randn({kRows, kCols}) * 3);
  const at::Tensor up = this->Randn({kRows, kCols});
  const at::Tensor y = this->Empty({kRows, kCols});
  RunOnTwo(kernels::Gelu<TypeParam>{.x = Elements<TypeParam>(x), .y = Elements<TypeParam>(y), .n = kRows * kCols});
  // At infinity ATen's vectorized code returns NaN where x · Φ(x) is infinite: the native kernel follows the formula.
  this->ExpectSame(y, at::gelu(x).masked_fill_(x == std::numeric_limits<float>::infinity(), x[1][5]), 8);
  RunOnTwo(kernels::SiluMul<TypeParam>{
      .gate = Elements<TypeParam>(x), .up = Elements<TypeParam>(up), .y = Elements<TypeParam>(y), .n = kRows * kCols});
  this->ExpectSame(y, at::silu(x) * up, 4);
}

TYPED_TEST(SameAsLibTorch, RopeAndEmbedding) {
  constexpr int64_t kEven = 38;
  const at::Tensor x =
      this->Special(this->Randn({kRows, kCols})).view({-1}).narrow(0, 0, 12 * kEven).view({3, 4, kEven});
  const at::Tensor y = this->Empty({3, 4, kEven});
  const models::RotaryTable rope(4, kEven, 10000, at::TensorOptions(at::kCPU));
  RunOnTwo(kernels::Rope<TypeParam>{.x = Elements<TypeParam>(x),
                                    .y = Elements<TypeParam>(y),
                                    .cosines = Elements<float>(rope.cosines()),
                                    .sines = Elements<float>(rope.sines()),
                                    .rows = 12,
                                    .positions = 4,
                                    .cols = kEven});
  this->ExpectSame(y, rope.Rotate(x), 16);

  const at::Tensor table = this->Special(this->Randn({kRows, kCols}));
  const at::Tensor index = at::randint(kRows, {9}, at::TensorOptions(at::kLong));
  const at::Tensor rows = this->Empty({9, kCols});
  RunOnTwo(kernels::Embedding<TypeParam>{.table = Elements<TypeParam>(table),
                                         .index = Elements<int64_t>(index),
                                         .y = Elements<TypeParam>(rows),
                                         .rows = 9,
                                         .cols = kCols});
  this->ExpectSame(rows, at::embedding(table, index));
}

TEST(AdamWSameAsLibTorch, ThreeSteps) {
  at::Tensor ours = at::randn({1003});
  at::Tensor theirs = ours.clone();
  const at::Tensor gradient = at::randn({1003});
  gradient.select(0, 7).fill_(std::numeric_limits<float>::infinity());
  gradient.select(0, 9).fill_(std::numeric_limits<float>::quiet_NaN());
  at::Tensor mean = at::full({1003}, 0.0);
  at::Tensor square = at::full({1003}, 0.0);
  at::Tensor their_mean = mean.clone();
  at::Tensor their_square = square.clone();
  for (int64_t step = 1; step <= 3; ++step) {
    std::vector<kernels::AdamWTensor> tensors = {{.parameter = Elements<float>(ours),
                                                  .gradient = Elements<float>(gradient),
                                                  .mean = Elements<float>(mean),
                                                  .square = Elements<float>(square),
                                                  .n = 1003}};
    RunOnTwo(kernels::AdamW{
        .tensors = tensors, .step = step, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-2});
    std::vector<at::Tensor> parameters = {theirs};
    std::vector<at::Tensor> means = {their_mean};
    std::vector<at::Tensor> squares = {their_square};
    at::_fused_adamw_(parameters, {gradient}, means, squares, {}, {at::full({}, static_cast<double>(step))}, 1e-3, 0.9,
                      0.999, 1e-2, 1e-8, /*amsgrad=*/false, /*maximize=*/false);
  }
  EXPECT_TRUE(ours.allclose(theirs, 1e-5, 1e-7, /*equal_nan=*/true));
  EXPECT_TRUE(mean.allclose(their_mean, 1e-5, 1e-7, /*equal_nan=*/true));
  EXPECT_TRUE(square.allclose(their_square, 1e-5, 1e-7, /*equal_nan=*/true));
}

constexpr int64_t kOutputs = 48;
constexpr int64_t kBatch = 3;

template <typename T>
T* Data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Both round a sum to bf16; LibTorch's int4 operator also rounds each weight to bf16 first.
void ExpectEqual(const at::Tensor& ours, const at::Tensor& theirs, int64_t k) {
  const absl::Status status = CompareTensors(
      ours, theirs.to(at::kDouble), {.dtype = workload::Dtype::kBf16, .reduction = static_cast<double>(k)}, "product");
  EXPECT_TRUE(status.ok()) << status;
}

TEST(WeightOnly, Int8EqualsLibTorch) {
  for (const int64_t k : {64, 1504}) {
    const at::Tensor weight = at::randn({kOutputs, k});
    const at::Tensor x = at::randn({kBatch, k}).to(at::kBFloat16);
    const at::Tensor quantized = at::empty({kOutputs, k}, at::kChar);
    at::Tensor scales = at::empty({kOutputs});
    kernels::QuantizeInt8(Data<float>(weight), k, Data<int8_t>(quantized), Data<float>(scales), {0, kOutputs});
    // LibTorch takes them in bf16.
    scales = scales.to(at::kBFloat16).to(at::kFloat);
    const at::Tensor y = at::empty({kBatch, kOutputs}, at::kBFloat16);
    RunOnTwo(kernels::Gemv<kernels::Int8Weight, kernels::Bf16, kernels::Bf16>{
        .weight = {Data<int8_t>(quantized), Data<float>(scales), kOutputs, k},
        .x = Data<kernels::Bf16>(x),
        .y = Data<kernels::Bf16>(y),
        .m = kBatch});
    ExpectEqual(y, at::_weight_int8pack_mm(x, quantized, scales.to(at::kBFloat16)), k);
  }
}

TEST(WeightOnly, Int4EqualsLibTorch) {
  for (const int64_t group : {32, 64, 128}) {
    const int64_t k = 9 * group;
    const at::Tensor weight = at::randn({kOutputs, k});
    const at::Tensor x = at::randn({kBatch, k}).to(at::kBFloat16);
    const at::Tensor codes = at::empty({kOutputs, k}, at::kByte);
    const at::Tensor scales_zeros = at::empty({kOutputs, k / group, 2}, at::kBFloat16);
    kernels::QuantizeInt4(Data<float>(weight), k, group, Data<uint8_t>(codes), Data<kernels::Bf16>(scales_zeros),
                          {0, kOutputs});
    const at::Tensor packed = at::empty({kernels::Int4Bytes(kOutputs, k, group)}, at::kByte);
    kernels::PackInt4(Data<uint8_t>(codes), Data<kernels::Bf16>(scales_zeros), kOutputs, k, group,
                      Data<std::byte>(packed), {0, kernels::Int4Tiles(kOutputs)});
    const at::Tensor y = at::empty({kBatch, kOutputs}, at::kBFloat16);
    RunOnTwo(kernels::Gemv<kernels::Int4Weight, kernels::Bf16, kernels::Bf16>{
        .weight = {Data<std::byte>(packed), kOutputs, k, group},
        .x = Data<kernels::Bf16>(x),
        .y = Data<kernels::Bf16>(y),
        .m = kBatch});
    const at::Tensor theirs =
        at::_weight_int4pack_mm_for_cpu(x, at::_convert_weight_to_int4pack_for_cpu(codes.to(at::kInt), 1), group,
                                        scales_zeros.transpose(0, 1).contiguous());
    ExpectEqual(y, theirs, k);
  }
}

}  // namespace
}  // namespace roofbench
