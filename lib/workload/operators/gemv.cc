// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/gemv.h"

namespace roofbench::workload {

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

}  // namespace roofbench::workload
