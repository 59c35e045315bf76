// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/precision_scopes.h"

#include <ATen/Context.h>

namespace roofbench {

Fp32Scope::Fp32Scope(bool tf32)
    : blas_before_(at::globalContext().allowTF32CuBLAS()), dnn_before_(at::globalContext().allowTF32CuDNN()) {
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
}

Fp32Scope::~Fp32Scope() {
  at::globalContext().setAllowTF32CuBLAS(blas_before_);
  at::globalContext().setAllowTF32CuDNN(dnn_before_);
}

}  // namespace roofbench
