// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gemm_probe.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <functional>
#include <utility>

#include "lib/aten/products.h"
#include "lib/aten/storage_type.h"
#include "lib/hardware/roofs/bursts.h"

namespace roofbench {
namespace {

// 512: three operands of any precision fit a private L2 of 1 MiB or a small share of the last level, so that the probe
// measures arithmetic and not memory; larger products gain less than 5 % on the processors tried.
constexpr int64_t kSize = 512;

hardware::ComputeProbe Repeat(std::function<void()> product) {
  return hardware::MedianOfSteps(2.0 * kSize * kSize * kSize, [product = std::move(product)] {
    const at::NoGradGuard no_grad;
    product();
  });
}

}  // namespace

std::vector<std::pair<std::string, hardware::ComputeProbe>> GemmProbes(workload::Dtype dtype) {
  if (dtype == workload::Dtype::kInt8) {
    const at::Tensor a = at::randint(-127, 128, {kSize, kSize}, at::kChar);
    const at::Tensor b = at::randint(-127, 128, {kSize, kSize}, at::kChar);
    return {{"gemm _int_mm", Repeat([=] { at::_int_mm(a, b); })}};
  }
  const at::Tensor a = at::randn({kSize, kSize}).to(StorageType(dtype));
  const at::Tensor b = at::randn({kSize, kSize}).to(StorageType(dtype));
  at::Tensor c = at::empty({kSize, kSize}, StorageType(dtype));
  return {{"gemm mm", Repeat([=]() mutable { at::mm_out(c, a, b); })},
          {"gemm onednn", Repeat([=] { OnednnLinear(a, b); })}};
}

}  // namespace roofbench
