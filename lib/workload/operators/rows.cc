// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/rows.h"

namespace roofbench::workload {

namespace {

struct PerElement {
  double parameters;      // vectors of the row's length: weight and bias
  double row_statistics;  // mean and rstd
};

PerElement Of(NormKind kind) {
  return kind == NormKind::kLayer ? PerElement{.parameters = 2, .row_statistics = 2}
                                  : PerElement{.parameters = 1, .row_statistics = 1};
}

}  // namespace

Operation Norm::Forward() const {
  const double bytes = rows * cols * ElementBytes(dtype);
  Operation operation{.bytes_read = bytes + Of(kind).parameters * cols * ElementBytes(Dtype::kFp32),
                      .bytes_written = bytes};
  operation.flops[Index(Dtype::kFp32)] = FlopsPerElement(kind) * rows * cols;
  return operation;
}

Operation Norm::Backward() const {
  const double bytes = rows * cols * ElementBytes(dtype);
  const double fp32 = ElementBytes(Dtype::kFp32);
  Operation operation{.bytes_read = 2 * bytes + cols * fp32 + Of(kind).row_statistics * rows * fp32,
                      .bytes_written = bytes + Of(kind).parameters * cols * fp32};
  operation.flops[Index(Dtype::kFp32)] = 2 * FlopsPerElement(kind) * rows * cols;
  return operation;
}

Cost Norm::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.Bytes()};
}

Cost Norm::BackwardCost() const {
  const Operation backward = Backward();
  return {.operations = {backward}, .resident_bytes = backward.Bytes()};
}

Cost Norm::EagerForwardCost(bool composed) const {
  Cost cost = ForwardCost();
  const int copies = dtype == Dtype::kFp32 ? 2 : 3;
  cost.resident_bytes += rows * cols * (composed ? copies * ElementBytes(Dtype::kFp32) : ElementBytes(dtype));
  return cost;
}

Cost Norm::EagerBackwardCost(bool composed) const {
  Cost cost = BackwardCost();
  const int copies = dtype == Dtype::kFp32 ? 4 : 5;  // in fp32 the last of them is dx
  if (composed) cost.resident_bytes += rows * cols * copies * ElementBytes(Dtype::kFp32);
  return cost;
}

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
