// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/elementwise.h"

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

namespace {

constexpr double kIndexBytes = 8;

}  // namespace

Operation Embedding::Forward() const {
  const double bytes = tokens * cols * ElementBytes(dtype);
  return {.bytes_read = bytes + tokens * kIndexBytes, .bytes_written = bytes};
}

Cost Embedding::ForwardCost() const {
  const double table_bytes = vocabulary * cols * ElementBytes(dtype);
  const double result_bytes = tokens * cols * ElementBytes(dtype);
  return {.operations = {Forward()}, .resident_bytes = table_bytes + tokens * kIndexBytes + result_bytes};
}

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
