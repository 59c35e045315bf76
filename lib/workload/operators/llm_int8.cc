// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/llm_int8.h"

#include <algorithm>

#include "lib/workload/weight_format.h"

namespace roofbench::workload {

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
  // Values, magnitudes and what is kept of them, in fp32, then the same scaled, rounded and in int8.
  const double quantizing = (5 * 4 + 1) * m * k;
  // The first three and the quantized ones, and products, their scales twice, what both give, and that in bf16.
  const double dequantizing = (3 * 4 + 1) * m * k + (4 * 4 + 2) * m * n;
  return CostBeside(std::max(quantizing, dequantizing));
}

}  // namespace roofbench::workload
