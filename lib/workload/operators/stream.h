// SPDX-License-Identifier: Apache-2.0
// Plain memory traffic: the streams whose rates are the bandwidth roof.
#pragma once

#include "lib/workload/cost.h"

namespace roofbench::workload {

// Reads `bytes` bytes.
struct ReadStream {
  double bytes = 0;
  workload::Cost Cost() const { return {.operations = {{.bytes_read = bytes}}, .resident_bytes = bytes}; }
};

// Reads `bytes` bytes and writes as many elsewhere.
struct CopyStream {
  double bytes = 0;
  workload::Cost Cost() const {
    return {.operations = {{.bytes_read = bytes, .bytes_written = bytes}}, .resident_bytes = 2 * bytes};
  }
};

}  // namespace roofbench::workload
