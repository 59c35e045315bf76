// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/rows.h"

namespace roofbench::workload {
namespace {

constexpr double kFp32Bytes = 4;

// A layer norm has a weight and a bias per column, and a mean and an rstd per row; an RMS norm one of each.
double Vectors(NormKind kind) { return kind == NormKind::kLayer ? 2 : 1; }

}  // namespace

Operation Norm::Forward() const {
  Operation operation = Map(rows * cols, dtype, 1, FlopsPerElement(kind));
  operation.bytes_read += Vectors(kind) * cols * kFp32Bytes;
  return operation;
}

Operation Norm::Backward() const {
  Operation operation = Map(rows * cols, dtype, 2, 2 * FlopsPerElement(kind));
  operation.bytes_read += (cols + Vectors(kind) * rows) * kFp32Bytes;
  operation.bytes_written += Vectors(kind) * cols * kFp32Bytes;
  return operation;
}

Cost Norm::EagerForwardCost(bool composed) const {
  Cost cost = ForwardCost();
  const int copies = dtype == Dtype::kFp32 ? 2 : 3;
  cost.resident_bytes += rows * cols * (composed ? copies * kFp32Bytes : ElementBytes(dtype));
  return cost;
}

Cost Norm::EagerBackwardCost(bool composed) const {
  Cost cost = BackwardCost();
  const int copies = dtype == Dtype::kFp32 ? 4 : 5;  // in fp32 the last of them is dx
  if (composed) cost.resident_bytes += rows * cols * copies * kFp32Bytes;
  return cost;
}

Operation CrossEntropy::Forward() const {
  constexpr double kFlops = 4;
  constexpr double kTargetBytes = 8;
  return Operation{.bytes_read = rows * cols * ElementBytes(dtype) + rows * kTargetBytes,
                   .bytes_written = rows * kFp32Bytes}
      .WithFlops(Dtype::kFp32, kFlops * rows * cols);
}

Operation CrossEntropy::ForwardBackward() const {
  constexpr double kFlops = 6;
  Operation operation = Forward();
  operation.bytes_written += rows * cols * ElementBytes(dtype);
  return operation.WithFlops(Dtype::kFp32, kFlops * rows * cols);
}

}  // namespace roofbench::workload
