// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/softmax.h"

namespace roofbench::workload {

Operation Softmax::Forward() const {
  const double bytes = rows * cols * ElementBytes(dtype);
  Operation operation{.bytes_read = bytes, .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = kFlops * rows * cols;
  return operation;
}

Operation Softmax::Backward() const {
  const double bytes = rows * cols * ElementBytes(dtype);
  Operation operation{.bytes_read = 2 * bytes, .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = kGradientFlops * rows * cols;
  return operation;
}

Cost Softmax::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.Bytes()};
}

}  // namespace roofbench::workload
