// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/silu_mul.h"

namespace roofbench::workload {

Operation SiluMul::Forward() const {
  const double bytes = elements * ElementBytes(dtype);
  Operation operation{.bytes_read = 2 * bytes, .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = kFlops * elements;
  return operation;
}

Cost SiluMul::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.Bytes()};
}

}  // namespace roofbench::workload
