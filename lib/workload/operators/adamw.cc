// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/adamw.h"

namespace roofbench::workload {

Operation AdamW::Step() const {
  const double bytes = parameters * ElementBytes(Dtype::kFp32);
  Operation operation{.bytes_read = bytes, .bytes_updated = 3 * bytes};
  operation.flops[Index(Dtype::kFp32)] = kFlops * parameters;
  return operation;
}

Cost AdamW::StepCost() const {
  return {.operations = {Step()}, .resident_bytes = 4 * parameters * ElementBytes(Dtype::kFp32)};
}

}  // namespace roofbench::workload
