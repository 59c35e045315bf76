// SPDX-License-Identifier: Apache-2.0
#include "lib/workload/operators/embedding.h"

namespace roofbench::workload {
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

}  // namespace roofbench::workload
