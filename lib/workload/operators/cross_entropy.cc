// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/cross_entropy.h"

namespace roofbench::workload {
namespace {

constexpr double kTargetBytes = 8;

}  // namespace

Operation CrossEntropy::Forward() const {
  constexpr double kFlops = 4;
  Operation operation{.bytes_read = rows * cols * ElementBytes(dtype) + rows * kTargetBytes,
                      .bytes_written = rows * ElementBytes(Dtype::kFp32)};
  operation.flops[Index(Dtype::kFp32)] = kFlops * rows * cols;
  return operation;
}

Operation CrossEntropy::ForwardBackward() const {
  constexpr double kFlops = 6;
  Operation operation = Forward();
  operation.bytes_written += rows * cols * ElementBytes(dtype);
  operation.flops[Index(Dtype::kFp32)] = kFlops * rows * cols;
  return operation;
}

Cost CrossEntropy::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.Bytes()};
}

Cost CrossEntropy::ForwardBackwardCost() const {
  const Operation both = ForwardBackward();
  return {.operations = {both}, .resident_bytes = both.Bytes()};
}

}  // namespace roofbench::workload
