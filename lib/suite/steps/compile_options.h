// SPDX-License-Identifier: Apache-2.0
// What impl:compiled is compiled with.
#pragma once

namespace roofbench {

struct CompileOptions {
  // Inductor tries further tilings of the kernels that it makes for GPUs; what it makes for processors stays the same.
  bool coordinate_descent_tuning = false;
};

}  // namespace roofbench
