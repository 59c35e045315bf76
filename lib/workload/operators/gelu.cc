// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gelu.h"

namespace roofbench::workload {
namespace {

constexpr double kFlops = 8;

Operation Elementwise(const Gelu& gelu, double operands) {
  const double bytes = gelu.elements * ElementBytes(gelu.dtype);
  Operation operation{.bytes_read = operands * bytes, .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = kFlops * gelu.elements;
  return operation;
}

}  // namespace

Operation Gelu::Forward() const { return Elementwise(*this, 1); }

Operation Gelu::Backward() const { return Elementwise(*this, 2); }

Cost Gelu::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.bytes_read + forward.bytes_written};
}

}  // namespace roofbench::workload
