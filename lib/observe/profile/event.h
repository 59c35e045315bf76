// SPDX-License-Identifier: Apache-2.0
// What a profiler saw: one event each for an operator, a range of ours, a kernel of a GPU.
#pragma once

#include <cstdint>
#include <string>

namespace roofbench::observe {

enum class EventKind { kOperator, kRange, kDeviceKernel };

struct ProfiledEvent {
  std::string name;
  EventKind kind = EventKind::kOperator;
  uint64_t thread = 0;  // of the host; of a device kernel: its stream
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string shapes = {};  // of tensor arguments: "[4, 8] [8]"
  double flops = 0;         // 0: not known
  double input_bytes = 0;   // of tensor arguments, each once; 0: not known
  // Of autograd: a function of the backward pass has the number of the operator of the forward pass that it belongs to.
  int64_t sequence = -1;
  bool backward = false;
  // Of a device kernel: the `correlation` of the operator that launched it. 0: none.
  uint64_t correlation = 0;
  std::string launch = {};  // "grid 4x1x1 block 128x1x1"

  int64_t duration_ns() const { return end_ns - start_ns; }
};

}  // namespace roofbench::observe
