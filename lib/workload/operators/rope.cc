// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/rope.h"

namespace roofbench::workload {

Operation Rope::Forward() const {
  const double elements = heads * tokens * head_dim;
  const double bytes = elements * ElementBytes(dtype);
  // Two tables of half a head's length.
  const double table_bytes = tokens * head_dim * ElementBytes(Dtype::kFp32);
  Operation operation{.bytes_read = bytes + table_bytes, .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = kFlops * elements;
  return operation;
}

Cost Rope::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.Bytes()};
}

}  // namespace roofbench::workload
