// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/products.h"

#include <algorithm>

#include "lib/workload/weight_format.h"

namespace roofbench::workload {

Operation Gemm::Forward() const {
  const double output_bytes = dtype == Dtype::kInt8 ? 4 : ElementBytes(dtype == Dtype::kFp8 ? Dtype::kBf16 : dtype);
  return Operation{.bytes_read = (m * k + k * n) * ElementBytes(dtype) + scales * ElementBytes(Dtype::kFp32),
                   .bytes_written = m * n * output_bytes}
      .WithFlops(dtype, 2 * m * n * k);
}

double Gemm::Fp8ConversionBytes() const {
  const double wide = ElementBytes(Dtype::kFp32);
  const double second = std::max(wide * k * n, (wide + ElementBytes(Dtype::kBf16)) * m * n);
  return ElementBytes(Dtype::kFp8) * k * n + wide * (m * k + k * n) + second;
}

std::array<Operation, 2> Gemm::Backward() const {
  return {Gemm{.m = m, .n = k, .k = n, .dtype = dtype}.Forward(),
          Gemm{.m = k, .n = n, .k = m, .dtype = dtype}.Forward()};
}

Operation Gemv::Forward() const {
  const double element = ElementBytes(ActivationDtype(format));
  return Operation{.bytes_read = MatrixBytes(format, n, k, group) + batch * k * element,
                   .bytes_written = batch * n * element}
      .WithFlops(ProductDtype(format), 2 * batch * n * k);
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

Cost GroupedGemm::ForwardCost() const {
  const double matrix = expert.n * expert.k * ElementBytes(expert.dtype);
  Operation operation = expert.Forward();
  operation.bytes_read += (chosen - 1) * matrix;
  Cost cost = InOperands(operation);
  cost.resident_bytes += (experts - chosen) * matrix;
  return cost;
}

Operation LlmInt8Linear::Product() const {
  const double element = ElementBytes(Dtype::kBf16);
  return Operation{.bytes_read = MatrixBytes(WeightFormat::kLlmInt8, n, k, 0) + m * k * element,
                   .bytes_written = m * n * element}
      .WithFlops(Dtype::kInt8, 2 * m * n * k);
}

Cost LlmInt8Linear::CostWith(double temporaries) const {
  Cost cost = InOperands(Product());
  cost.operations.push_back(Operation().WithFlops(Dtype::kBf16, 2 * m * n * outlier_columns));
  cost.resident_bytes += temporaries;
  return cost;
}

Cost LlmInt8Linear::FusedCost() const { return CostWith(m * k); }

Cost LlmInt8Linear::StagedCost() const {
  // Values, magnitudes and the values kept, in fp32, then the same scaled, rounded and in int8.
  const double quantizing = (5 * 4 + 1) * m * k;
  // The first three and the quantized ones, and products, their scales twice, the result of both, and that in bf16.
  const double dequantizing = (3 * 4 + 1) * m * k + (4 * 4 + 2) * m * n;
  return CostWith(std::max(quantizing, dequantizing));
}

Gemm Fp8Linear::Product() const { return {.m = m, .n = n, .k = k, .dtype = Dtype::kFp8, .scales = row_scales ? n : 1}; }

Cost Fp8Linear::ForwardCost() const {
  Operation operation = Product().Forward();
  operation.bytes_read += m * k * (ElementBytes(Dtype::kBf16) - ElementBytes(Dtype::kFp8));
  Cost cost = InOperands(operation);
  // x in fp32, scaled in place, and quantized.
  cost.resident_bytes += m * k * (ElementBytes(Dtype::kFp32) + ElementBytes(Dtype::kFp8));
  return cost;
}

}  // namespace roofbench::workload
