// SPDX-License-Identifier: Apache-2.0
// Our weight-only products and LibTorch's own operators on the same quantised weights.

#include <ATen/ops/_convert_weight_to_int4pack_for_cpu.h>
#include <ATen/ops/_weight_int4pack_mm_for_cpu.h>
#include <ATen/ops/_weight_int8pack_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "lib/kernels/operators/products/gemv.h"
#include "lib/kernels/operators/products/quantize.h"
#include "lib/kernels/threading/thread_pool.h"
#include "lib/suite/check.h"

namespace roofbench {
namespace {

using kernels::Bf16;

constexpr int64_t kRows = 48;
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
    const at::Tensor weight = at::randn({kRows, k});
    const at::Tensor x = at::randn({kBatch, k}).to(at::kBFloat16);
    const at::Tensor quantised = at::empty({kRows, k}, at::kChar);
    at::Tensor scales = at::empty({kRows});
    kernels::QuantizeInt8(Data<float>(weight), k, Data<int8_t>(quantised), Data<float>(scales), {0, kRows});
    // LibTorch takes them in bf16.
    scales = scales.to(at::kBFloat16).to(at::kFloat);
    const at::Tensor y = at::empty({kBatch, kRows}, at::kBFloat16);
    kernels::Run(kernels::Gemv<kernels::Int8Weight, Bf16, Bf16>{.weight = {Data<int8_t>(quantised), Data<float>(scales),
                                                                           kRows, k},
                                                                .x = Data<Bf16>(x),
                                                                .y = Data<Bf16>(y),
                                                                .m = kBatch},
                 kernels::ThreadPool(2));
    ExpectEqual(y, at::_weight_int8pack_mm(x, quantised, scales.to(at::kBFloat16)), k);
  }
}

TEST(WeightOnly, Int4EqualsLibTorch) {
  for (const int64_t group : {32, 64, 128}) {
    const int64_t k = 9 * group;
    const at::Tensor weight = at::randn({kRows, k});
    const at::Tensor x = at::randn({kBatch, k}).to(at::kBFloat16);
    const at::Tensor codes = at::empty({kRows, k}, at::kByte);
    const at::Tensor scales_zeros = at::empty({kRows, k / group, 2}, at::kBFloat16);
    kernels::QuantizeInt4(Data<float>(weight), k, group, Data<uint8_t>(codes), Data<Bf16>(scales_zeros), {0, kRows});
    const at::Tensor packed = at::empty({kernels::Int4Bytes(kRows, k, group)}, at::kByte);
    kernels::PackInt4(Data<uint8_t>(codes), Data<Bf16>(scales_zeros), kRows, k, group, Data<std::byte>(packed),
                      {0, kernels::Int4Tiles(kRows)});
    const at::Tensor y = at::empty({kBatch, kRows}, at::kBFloat16);
    kernels::Run(
        kernels::Gemv<kernels::Int4Weight, Bf16, Bf16>{
            .weight = {Data<std::byte>(packed), kRows, k, group}, .x = Data<Bf16>(x), .y = Data<Bf16>(y), .m = kBatch},
        kernels::ThreadPool(2));
    const at::Tensor theirs =
        at::_weight_int4pack_mm_for_cpu(x, at::_convert_weight_to_int4pack_for_cpu(codes.to(at::kInt), 1), group,
                                        scales_zeros.transpose(0, 1).contiguous());
    ExpectEqual(y, theirs, k);
  }
}

}  // namespace
}  // namespace roofbench
