// SPDX-License-Identifier: Apache-2.0
// The __shared__ variables of the kernels in this library, whose thread-local variables are all shared memory: see
// cuda/cuda_runtime.h.
#pragma once

namespace roofbench::emulated {

// Sets all their bytes to 0xff: NaN, and an invalid address.
void PoisonShared();

}  // namespace roofbench::emulated
