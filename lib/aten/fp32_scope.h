// SPDX-License-Identifier: Apache-2.0
// How fp32 products are multiplied while a case runs: exactly, or in tf32.
#pragma once

namespace roofbench {

// Sets LibTorch's global switch for cuBLAS and cuDNN, and puts it back. Without meaning on a CPU.
class Fp32Scope {
 public:
  explicit Fp32Scope(bool tf32);
  ~Fp32Scope();
  Fp32Scope(const Fp32Scope&) = delete;
  Fp32Scope& operator=(const Fp32Scope&) = delete;

 private:
  bool blas_before_;
  bool dnn_before_;
};

}  // namespace roofbench
