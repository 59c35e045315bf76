// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/products.h"

#include <algorithm>

#include "lib/workload/weight_format.h"

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

Operation Gemv::Forward() const {
  const double element = ElementBytes(ActivationDtype(format));
  Operation operation{.bytes_read = MatrixBytes(format, n, k, group) + batch * k * element,
                      .bytes_written = batch * n * element};
  operation.flops[Index(ProductDtype(format))] = 2 * batch * n * k;
  return operation;
}

Cost Gemv::ForwardCost() const {
  const Operation forward = Forward();
  return {.operations = {forward}, .resident_bytes = forward.bytes_read + forward.bytes_written};
}

Cost GatherGemv::ForwardCost() const {
  Operation operation = expert.Forward();
  const double matrix = MatrixBytes(expert.format, expert.n, expert.k, expert.group);
  const double vector = operation.bytes_read - matrix;  // the same for every expert
  operation.bytes_read = chosen * matrix + vector;
  operation.bytes_written *= chosen;
  for (double& flops : operation.flops) flops *= chosen;
  return {.operations = {operation}, .resident_bytes = experts * matrix + vector + operation.bytes_written};
}

Operation LlmInt8Linear::Product() const {
  const double element = ElementBytes(Dtype::kBf16);
  Operation operation{.bytes_read = MatrixBytes(WeightFormat::kLlmInt8, n, k, 0) + m * k * element,
                      .bytes_written = m * n * element};
  operation.flops[Index(Dtype::kInt8)] = 2 * m * n * k;
  return operation;
}

Operation LlmInt8Linear::OutlierProduct() const {
  Operation operation;
  operation.flops[Index(Dtype::kBf16)] = 2 * m * n * outlier_columns;
  return operation;
}

Cost LlmInt8Linear::CostBeside(double temporaries) const {
  const Operation product = Product();
  return {.operations = {product, OutlierProduct()}, .resident_bytes = product.Bytes() + temporaries};
}

Cost LlmInt8Linear::FusedCost() const { return CostBeside(m * k); }

Cost LlmInt8Linear::StagedCost() const {
  // Values, magnitudes and the values kept, in fp32, then the same scaled, rounded and in int8.
  const double quantizing = (5 * 4 + 1) * m * k;
  // The first three and the quantized ones, and products, their scales twice, the result of both, and that in bf16.
  const double dequantizing = (3 * 4 + 1) * m * k + (4 * 4 + 2) * m * n;
  return CostBeside(std::max(quantizing, dequantizing));
}

}  // namespace roofbench::workload
