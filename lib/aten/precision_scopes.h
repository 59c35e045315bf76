// SPDX-License-Identifier: Apache-2.0
// Scopes that set the precision of LibTorch's products.
#pragma once

#include <ATen/Context.h>
#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

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
  Autocast(bool on, at::DeviceType device);
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast();

  static bool IsOn(at::DeviceType device);

 private:
  const bool on_;
  const at::DeviceType device_;
  bool before_ = false;
  at::ScalarType dtype_before_ = at::kBFloat16;
};

}  // namespace roofbench
