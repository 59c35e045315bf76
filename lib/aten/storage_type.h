// SPDX-License-Identifier: Apache-2.0
// ATen's storage type of a precision.
#pragma once

#include <c10/core/ScalarType.h>

#include "lib/workload/dtype.h"

namespace roofbench {

// tf32 is stored as fp32.
at::ScalarType StorageType(workload::Dtype dtype);

}  // namespace roofbench
