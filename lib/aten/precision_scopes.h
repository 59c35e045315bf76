// SPDX-License-Identifier: Apache-2.0
// Scopes that set the precision of LibTorch's products.
#pragma once

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>

namespace roofbench {

// Multiplies fp32 exactly or in tf32: sets LibTorch's global switches for cuBLAS and cuDNN, and restores them. No
// effect on a CPU.
class Fp32Scope {
 public:
  explicit Fp32Scope(bool tf32) { Set(tf32, tf32); }
  Fp32Scope(const Fp32Scope&) = delete;
  Fp32Scope& operator=(const Fp32Scope&) = delete;
  ~Fp32Scope() { Set(blas_before_, dnn_before_); }

 private:
  static void Set(bool blas, bool dnn) {
    at::globalContext().setAllowTF32CuBLAS(blas);
    at::globalContext().setAllowTF32CuDNN(dnn);
  }

  const bool blas_before_ = at::globalContext().allowTF32CuBLAS();
  const bool dnn_before_ = at::globalContext().allowTF32CuDNN();
};

// LibTorch's automatic mixed precision: products on the device run in bf16 if `on`; otherwise nothing changes.
class Autocast {
 public:
  Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    before_ = at::autocast::is_autocast_enabled(device);
    dtype_before_ = at::autocast::get_autocast_dtype(device);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, at::kBFloat16);  // CUDA's default is fp16
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (!on_) return;
    // The cache holds casts of this step's weights, which the next step has changed.
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }

 private:
  const bool on_;
  const at::DeviceType device_;
  bool before_ = false;
  at::ScalarType dtype_before_ = at::kBFloat16;
};

}  // namespace roofbench
