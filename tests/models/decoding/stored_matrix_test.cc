// SPDX-License-Identifier: Apache-2.0
#include "lib/models/decoding/stored_matrix.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace roofbench::models {
namespace {

using workload::WeightFormat;

at::Tensor Normal(at::IntArrayRef shape, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator);
}

StoredMatrix Stored(WeightFormat format, const at::Tensor& w) {
  StoredMatrix matrix = StoredMatrix::Empty(format, 2, w.size(0), w.size(1), 32);
  matrix.Store(0, 0, Normal({w.size(0), w.size(1)}, 9));  // the other expert
  matrix.Store(1, 0, w.narrow(0, 0, 16));
  matrix.Store(1, 16, w.narrow(0, 16, w.size(0) - 16));
  return matrix;
}

TEST(StoredMatrix, DequantizedIsWithinAStep) {
  const at::Tensor w = Normal({48, 96}, 1);
  for (const auto& [format, steps] : {std::pair(WeightFormat::kInt8, 127.5), std::pair(WeightFormat::kLlmInt8, 127.0),
                                      std::pair(WeightFormat::kInt4, 7.0)}) {
    const at::Tensor back = Stored(format, w).Dequantized(1, 0, 48);
    const at::Tensor step = std::get<0>(w.abs().max(1, /*keepdim=*/true)) / steps;
    EXPECT_TRUE((back - w).abs().le(step * 0.6 + 0.01).all().item<bool>()) << Name(format);
    EXPECT_FALSE(back.equal(w)) << Name(format);
  }
  EXPECT_TRUE(Stored(WeightFormat::kFp32, w).Dequantized(1, 0, 48).equal(w));
  EXPECT_TRUE(Stored(WeightFormat::kBf16, w)
                  .Dequantized(1, 16, 32)
                  .equal(w.to(at::kBFloat16).to(at::kFloat).narrow(0, 16, 32)));
}

// e4m3 has steps of a sixteenth of a number; the largest of each row is exact.
TEST(StoredMatrix, Fp8KeepsFourBitsOfEachWeight) {
  at::Tensor w = Normal({48, 96}, 1);
  w[3].mul_(1e-3);
  const at::Tensor back = Stored(WeightFormat::kFp8, w).Dequantized(1, 0, 48);
  const at::Tensor largest = w.abs().amax({1}, /*keepdim=*/true);
  EXPECT_TRUE((back - w).abs().le(w.abs() * 0x1p-4 + largest * (0x1p-9 / 448)).all().item<bool>());
  EXPECT_TRUE(at::allclose(back.abs().amax({1}, /*keepdim=*/true), largest, 1e-6, 0));
  EXPECT_FALSE(back.equal(w));
}

// gpt-fast's formulas, written out.
TEST(StoredMatrix, QuantizesByTheFormulas) {
  const at::Tensor w = Normal({32, 64}, 2);
  const at::Tensor scale = std::get<0>(w.abs().max(1, true)) / 127.5;
  const at::Tensor int8 = (w / scale).round().clamp(-128, 127) * scale;
  EXPECT_TRUE(at::allclose(Stored(WeightFormat::kInt8, w).Dequantized(1, 0, 32), int8, 1e-6, 1e-6));

  const at::Tensor groups = w.view({32, 2, 32});
  const at::Tensor low = std::get<0>(groups.min(2, true));
  const auto bf16 = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  const at::Tensor exact_step = (std::get<0>(groups.max(2, true)) - low) / 15;
  const at::Tensor step = bf16(exact_step);
  const at::Tensor zero = bf16(low + 8 * exact_step);
  const at::Tensor q = ((groups - (zero - 8 * step)) / step).round().clamp(0, 15);
  const at::Tensor int4 = ((q - 8) * step + zero).view({32, 64});
  // Where a weight lies in the middle between two steps, the last bit decides.
  EXPECT_LT((Stored(WeightFormat::kInt4, w).Dequantized(1, 0, 32) - int4).abs().gt(1e-3).sum().item<int64_t>(), 3);
}

// Int4's last tile is not full.
constexpr int64_t kRows = 41;

TEST(StoredMatrix, ProductsMatchTheDequantizedMatrix) {
  const at::Tensor w = Normal({kRows, 96}, 3);
  for (const WeightFormat format :
       {WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kBf16, WeightFormat::kFp8}) {
    const StoredMatrix matrix = Stored(format, w);
    for (const int64_t tokens : {1, 5}) {
      const at::Tensor x = Normal({tokens, 96}, 4).to(at::kBFloat16);
      const at::Tensor expected = at::linear(x.to(at::kFloat), matrix.Dequantized(1, 0, kRows));
      EXPECT_TRUE(at::allclose(matrix.Apply(x, 1, 6).to(at::kFloat), expected, 2e-2, 1e-1)) << Name(format);
      EXPECT_TRUE(at::allclose(matrix.ApplyExactly(x.to(at::kFloat), 1, 6), expected, 1e-5, 1e-5)) << Name(format);
    }
  }
}

// With activations in 8 bits: the integers written out, in double precision.
TEST(StoredMatrix, ProductsOfRoundedVectors) {
  const at::Tensor w = Normal({kRows, 96}, 3);
  at::Tensor x = Normal({5, 96}, 4).clamp_(-4, 4);
  // Steps of powers of two, so that only rounding to integers matters.
  x.select(1, 0).fill_(8);
  x = x.mul_(at::arange(5).exp2().unsqueeze(1)).to(at::kBFloat16);
  const at::Tensor step = std::get<0>(x.to(at::kDouble).abs().max(1, /*keepdim=*/true)) / 127;
  const at::Tensor whole = (x.to(at::kDouble) / step).round();
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    SCOPED_TRACE(Name(format));
    StoredMatrix matrix = Stored(format, w);
    const at::Tensor seen = matrix.Dequantized(1, 0, kRows).to(at::kDouble);
    const at::Tensor plain = matrix.ApplyExactly(x.to(at::kFloat), 1, 6).to(at::kDouble);
    const at::Tensor expected = whole.mm(seen.t()) * step;
    matrix.int8_activations = true;
    // The threshold of LLM.int8() does not apply to them: with it, most columns would be taken out.
    EXPECT_TRUE(at::allclose(matrix.ApplyExactly(x.to(at::kFloat), 1, 0.5).to(at::kDouble), expected, 1e-5, 1e-3));
    const at::Tensor size = step * 127 / 8;  // of a vector's usual numbers
    EXPECT_TRUE(at::allclose(matrix.Apply(x, 1, 0.5).to(at::kDouble) / size, expected / size, 2e-2, 2e-1));
    kernels::Int8Activations vectors;
    const auto* const values = reinterpret_cast<const kernels::Bf16*>(x.const_data_ptr<at::BFloat16>());
    vectors.Select(values, 5, 96, 0, kernels::SerialFor());
    vectors.Quantize(values, kernels::SerialFor(), matrix.SummedGroup());
    at::Tensor native = at::zeros({5, kRows});
    matrix.MultiplyIntegers(1, vectors, native.data_ptr<float>(), {0, 16});
    matrix.MultiplyIntegers(1, vectors, native.data_ptr<float>(), {16, kRows});
    EXPECT_TRUE(at::allclose(native.to(at::kDouble), expected, 1e-5, 1e-3));
    // The bound against the unrounded product: half a step per column at most.
    EXPECT_TRUE((plain - expected).abs().le(step / 2 * seen.abs().sum(1) + 1e-4).all().item<bool>());
    EXPECT_GT((plain - expected).abs().max().item<double>(), 1e-3);
  }
}

// LibTorch's product for a few vectors looks at 16 columns at a time, whatever the width.
TEST(StoredMatrix, Int8ProductsOfAnyWidth) {
  for (const int64_t columns : {1, 2, 4, 12, 16, 20, 40, 100, 200, 260}) {
    const at::Tensor w = Normal({24, columns}, 5);
    const StoredMatrix matrix = Stored(WeightFormat::kInt8, w);
    for (const int64_t tokens : {1, 2, 3, 4}) {
      const at::Tensor x = Normal({tokens, columns}, 6).to(at::kBFloat16);
      const at::Tensor expected = at::linear(x.to(at::kFloat), matrix.Dequantized(1, 0, 24));
      EXPECT_TRUE(at::allclose(matrix.Apply(x, 1, 6).to(at::kFloat), expected, 2e-2, 1e-1)) << columns << " " << tokens;
    }
  }
}

TEST(StoredMatrix, Int8ProductsOfUnalignedVectors) {
  const StoredMatrix matrix = Stored(WeightFormat::kInt8, Normal({24, 48}, 7));
  const at::Tensor memory = Normal({3 * 48 + 1}, 8).to(at::kBFloat16);
  const at::Tensor x = memory.narrow(0, 1, 3 * 48).view({3, 48});  // off the alignment that loads ask for
  const at::Tensor expected = at::linear(x.to(at::kFloat), matrix.Dequantized(1, 0, 24));
  EXPECT_TRUE(at::allclose(matrix.Apply(x, 1, 6).to(at::kFloat), expected, 2e-2, 1e-1));
}

TEST(StoredMatrix, RandomWeightsHaveTheirDeviation) {
  for (const WeightFormat format : workload::kWeightFormats) {
    StoredMatrix matrix = StoredMatrix::Empty(format, 1, 256, 512, 64);
    matrix.FillRandom(5, 0.25);
    const at::Tensor w = matrix.Dequantized(0, 0, 256);
    EXPECT_NEAR(w.std().item<double>(), 0.25, 0.01) << Name(format);
    EXPECT_NEAR(w.mean().item<double>(), 0, 0.01) << Name(format);
    StoredMatrix again = StoredMatrix::Empty(format, 1, 256, 512, 64);
    again.FillRandom(5, 0.25);
    EXPECT_TRUE(again.Dequantized(0, 0, 256).equal(w)) << Name(format);
    again.FillRandom(6, 0.25);
    EXPECT_FALSE(again.Dequantized(0, 0, 256).equal(w)) << Name(format);
  }
}

TEST(StoredMatrix, RefusesShapesThatInt4CannotHold) {
  EXPECT_TRUE(StoredMatrix::Check(WeightFormat::kInt4, 96, 32).ok());
  EXPECT_THAT(std::string(StoredMatrix::Check(WeightFormat::kInt4, 96, 64).message()), testing::HasSubstr("96"));
  EXPECT_FALSE(StoredMatrix::Check(WeightFormat::kInt4, 96, 48).ok());
  EXPECT_TRUE(StoredMatrix::Check(WeightFormat::kInt8, 5, 48).ok());
  EXPECT_TRUE(StoredMatrix::CheckJoined(WeightFormat::kInt4, 48).ok());
  EXPECT_THAT(std::string(StoredMatrix::CheckJoined(WeightFormat::kInt4, 40).message()), testing::HasSubstr("40"));
  EXPECT_TRUE(StoredMatrix::CheckJoined(WeightFormat::kInt8, 3).ok());
}

}  // namespace
}  // namespace roofbench::models
