// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/tolerance.h"

#include <cmath>

namespace roofbench::workload {

double RelativeTolerance(const Tolerance& tolerance) {
  const double epsilon = Epsilon(tolerance.dtype);
  if (epsilon == 0) return 0;
  const double sum = 4 * Epsilon(Dtype::kFp32) * std::sqrt(tolerance.reduction);
  return (2 * epsilon + sum) * std::sqrt(tolerance.roundings) * tolerance.amplification;
}

}  // namespace roofbench::workload
