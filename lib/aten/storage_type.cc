// SPDX-License-Identifier: Apache-2.0
#include "lib/aten/storage_type.h"

#include <stdexcept>

namespace roofbench {

at::ScalarType StorageType(workload::Dtype dtype) {
  switch (dtype) {
    case workload::Dtype::kFp32:
    case workload::Dtype::kTf32:
      return at::kFloat;
    case workload::Dtype::kBf16:
      return at::kBFloat16;
    case workload::Dtype::kFp16:
      return at::kHalf;
    case workload::Dtype::kInt8:
      return at::kChar;
    case workload::Dtype::kFp8:
      return at::kFloat8_e4m3fn;
  }
  throw std::logic_error("unknown precision");
}

}  // namespace roofbench
