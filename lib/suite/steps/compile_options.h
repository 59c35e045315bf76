// SPDX-License-Identifier: Apache-2.0
// Compiler options of impl:compiled.
#pragma once

namespace roofbench {

struct CompileOptions {
  // Inductor tries further tilings of its GPU kernels; processor kernels stay the same.
  bool coordinate_descent_tuning = false;
};

}  // namespace roofbench
