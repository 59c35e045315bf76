// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gemm.h"

namespace roofbench::workload {

Operation Gemm::Forward() const {
  Operation operation{.bytes_read = (m * k + k * n) * ElementBytes(dtype), .bytes_written = m * n * OutputBytes()};
  operation.flops[Index(dtype)] = 2 * m * n * k;
  return operation;
}

std::array<Operation, 2> Gemm::Backward() const {
  return {Gemm{.m = m, .n = k, .k = n, .dtype = dtype}.Forward(),
          Gemm{.m = k, .n = n, .k = m, .dtype = dtype}.Forward()};
}

Cost Gemm::ForwardCost() const {
  const Operation forward = Forward();
  return Cost{.operations = {forward}, .resident_bytes = forward.bytes_read + forward.bytes_written};
}

}  // namespace roofbench::workload
