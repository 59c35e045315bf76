// SPDX-License-Identifier: Apache-2.0
#include "lib/device/gemm_probes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_int_mm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/aten/fp8.h"
#include "lib/aten/precision_scopes.h"
#include "lib/aten/products.h"
#include "lib/aten/storage_type.h"
#include "lib/base/text.h"
#include "lib/hardware/roofs/bursts.h"
#include "lib/workload/operators/products.h"

namespace roofbench {
namespace {

using workload::Dtype;

// 512: three operands of any precision fit a private L2 of 1 MiB or a small share of the last level, so that the probe
// measures arithmetic and not memory; larger products gain less than 5 % on the processors tried.
constexpr int64_t kOnCpu = 512;

// 4096 keeps a probe short on a small GPU and in plain fp32; the tensor cores of a large GPU need 8192.
constexpr int64_t kSmall = 4096;
constexpr int64_t kLarge = 8192;

// A product of fp8 [n, n], on any device.
std::function<void()> ScaledProduct(int64_t n, at::Device device) {
  const auto on_device = at::TensorOptions(device);
  const at::Tensor a = at::randn({n, n}, on_device).to(StorageType(Dtype::kFp8));
  const at::Tensor b = at::randn({n, n}, on_device).to(StorageType(Dtype::kFp8)).t();
  const at::Tensor scale = at::ones({1, 1}, on_device);
  at::Tensor c = at::empty({n, n}, on_device.dtype(at::kBFloat16));
  return [=]() mutable { ScaledMmOut(c, a, b, scale, scale); };
}

hardware::ComputeProbe Repeat(std::function<void()> product) {
  return hardware::MedianOfSteps(2.0 * kOnCpu * kOnCpu * kOnCpu, [product = std::move(product)] {
    const at::NoGradGuard no_grad;
    product();
  });
}

// A product of [n, n]. `transposed`: with W stored as linear layers store it, for which cuBLAS has other kernels.
struct GpuProduct {
  std::string name;
  int64_t n = 0;
  bool transposed = false;
};

// fp32 without tensor cores, and fp64, are slow enough for a small product; those of 8 bits are transposed as it is.
std::vector<GpuProduct> GpuProductsOf(Dtype dtype) {
  std::vector<GpuProduct> products = {{.name = "gemm 4096", .n = kSmall}};
  if (dtype != Dtype::kFp32 && dtype != Dtype::kFp64) products.push_back({.name = "gemm 8192", .n = kLarge});
  if (dtype == Dtype::kInt8 || dtype == Dtype::kFp8) return products;
  const GpuProduct largest = products.back();
  products.push_back({.name = absl::StrCat(largest.name, " transposed"), .n = largest.n, .transposed = true});
  return products;
}

std::function<void()> ProductOnGpu(Dtype dtype, const GpuProduct& product, at::Device device) {
  const int64_t n = product.n;
  if (dtype == Dtype::kFp8) return ScaledProduct(n, device);
  const auto on_device = at::TensorOptions(device);
  if (dtype == Dtype::kInt8) {
    const at::Tensor a = at::randint(-127, 128, {n, n}, on_device.dtype(at::kChar));
    // The layout that the int8 tensor cores take without a copy.
    const at::Tensor b = at::randint(-127, 128, {n, n}, on_device.dtype(at::kChar)).t();
    at::Tensor c = at::empty({n, n}, on_device.dtype(at::kInt));
    return [=]() mutable { at::_int_mm_out(c, a, b); };
  }
  const at::Tensor a = at::randn({n, n}, on_device).to(StorageType(dtype));
  const at::Tensor w = at::randn({n, n}, on_device).to(StorageType(dtype));
  const at::Tensor b = product.transposed ? w.t() : w;
  at::Tensor c = at::empty({n, n}, on_device.dtype(StorageType(dtype)));
  return [=]() mutable { at::mm_out(c, a, b); };
}

class GpuProbe {
 public:
  GpuProbe(Dtype dtype, GpuProduct kind, at::Device device, std::shared_ptr<timing::Clock> clock,
           std::function<void(std::string)> fault)
      : dtype_(dtype), kind_(std::move(kind)), device_(device), clock_(std::move(clock)), fault_(std::move(fault)) {}

  double Run(double seconds) {
    if (broken_) return 0;
    const at::NoGradGuard no_grad;
    const Fp32Scope scope(dtype_ == Dtype::kTf32);
    try {
      if (!product_) {
        product_ = ProductOnGpu(dtype_, kind_, device_);
        seconds_ = TimeOf(1);  // absorbs cuBLAS's first-use setup
        seconds_ = TimeOf(1);
      }
      const auto products = static_cast<int64_t>(std::clamp(seconds / std::max(seconds_, 1e-6), 1.0, 400.0));
      seconds_ = TimeOf(products) / static_cast<double>(products);
    } catch (const c10::Error& error) {  // not enough memory, or no product in this precision
      fault_(absl::StrCat(std::string(Name(dtype_)), " ", kind_.name, ": ", FirstLine(error.what_without_backtrace())));
      product_ = nullptr;
      broken_ = true;
      return 0;
    }
    const auto n = static_cast<double>(kind_.n);
    return seconds_ > 0 ? workload::Gemm{.m = n, .n = n, .k = n, .dtype = dtype_}.ForwardCost().Flops() / seconds_ : 0;
  }

 private:
  double TimeOf(int64_t products) {
    clock_->BeginChunk(2);
    clock_->Mark();
    for (int64_t i = 0; i < products; ++i) product_();
    clock_->Mark();
    return clock_->EndChunk().back();
  }

  Dtype dtype_;
  GpuProduct kind_;
  at::Device device_;
  std::shared_ptr<timing::Clock> clock_;
  std::function<void(std::string)> fault_;
  std::function<void()> product_;
  double seconds_ = 0;
  bool broken_ = false;
};

}  // namespace

std::vector<std::pair<std::string, hardware::ComputeProbe>> CpuGemmProbes(Dtype dtype) {
  if (dtype == Dtype::kInt8) {
    const at::Tensor a = at::randint(-127, 128, {kOnCpu, kOnCpu}, at::kChar);
    const at::Tensor b = at::randint(-127, 128, {kOnCpu, kOnCpu}, at::kChar);
    return {{"gemm _int_mm", Repeat([=] { at::_int_mm(a, b); })}};
  }
  if (dtype == Dtype::kFp8) {
    // LibTorch multiplies in fp32 without AMX. A case of any size is below its roof if that product counts, too:
    // converting the operands takes a share that shrinks with their size.
    auto probes = CpuGemmProbes(Dtype::kFp32);
    probes.emplace_back("gemm _scaled_mm", Repeat(ScaledProduct(kOnCpu, at::kCPU)));
    return probes;
  }
  const at::Tensor a = at::randn({kOnCpu, kOnCpu}).to(StorageType(dtype));
  const at::Tensor b = at::randn({kOnCpu, kOnCpu}).to(StorageType(dtype));
  at::Tensor c = at::empty({kOnCpu, kOnCpu}, StorageType(dtype));
  std::vector<std::pair<std::string, hardware::ComputeProbe>> probes = {
      {"gemm mm", Repeat([=]() mutable { at::mm_out(c, a, b); })}};
  if (dtype != Dtype::kFp64) probes.emplace_back("gemm onednn", Repeat([=] { OnednnLinear(a, b); }));
  return probes;
}

std::vector<std::pair<std::string, hardware::ComputeProbe>> GpuGemmProbes(Dtype dtype, at::Device device,
                                                                          std::shared_ptr<timing::Clock> clock,
                                                                          std::function<void(std::string)> fault) {
  std::vector<std::pair<std::string, hardware::ComputeProbe>> probes;
  for (const GpuProduct& product : GpuProductsOf(dtype)) {
    const auto probe = std::make_shared<GpuProbe>(dtype, product, device, clock, fault);
    probes.emplace_back(product.name, [probe](double seconds) { return probe->Run(seconds); });
  }
  return probes;
}

}  // namespace roofbench
