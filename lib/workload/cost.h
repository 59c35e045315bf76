// SPDX-License-Identifier: Apache-2.0
// The exact work of one step: floating-point operations by precision, and the bytes that must move.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "lib/workload/dtype.h"

namespace roofbench::workload {

// One operation (a product, a norm, an optimizer update) in closed form from its shapes. Bytes are algorithmic: each
// operand is counted once, regardless of an implementation's actual traffic.
struct Operation {
  std::array<double, kDtypeCount> flops{};  // floating-point (or integer) operations, by precision
  double bytes_read = 0;                    // operands that are only read
  double bytes_written = 0;                 // results that are only written
  double bytes_updated = 0;                 // bytes changed in place: each is read once and written once
  double repeat = 1;                        // how often this operation occurs in the step
  std::string_view component = {};          // the phase of the step that it belongs to, where there is one

  // The same with `count` operations in a precision.
  Operation WithFlops(Dtype dtype, double count) const;

  // All precisions together, times `repeat`.
  double Flops() const;
  // Read + written + 2 x updated, times `repeat`.
  double Bytes() const;
};

// The work of one step, and the memory it needs.
struct Cost {
  std::vector<Operation> operations = {};
  double resident_bytes = 0;  // operands, results and temporaries alive at the peak of one step
  // For collective operations (lib/workload/collectives.h): the arrays, what each rank has to send for them, and what
  // the busiest rank sends with the algorithm in use.
  double array_bytes = 0;
  double bus_bytes = 0;
  double wire_bytes = 0;
  double link_messages = 0;  // one after the other: each takes the latency of a link
  // Loads, calls or barriers, each of which waits for the one before: the step takes so many times their latency.
  double in_sequence = 0;

  double Flops() const;
  double Flops(Dtype dtype) const;
  double Bytes() const;
  double BytesRead() const;
  double BytesWritten() const;
  double BytesUpdated() const;

  // The operations of one component alone, without memory.
  Cost OfComponent(std::string_view component) const;

  // Appends the operations of `other` and adds its bytes.
  Cost& operator+=(const Cost& other);
};

// y[i] = f(x[i], …): reads `inputs` arrays of `elements` elements and writes one, with `flops` per element in fp32.
Operation Map(double elements, Dtype dtype, double inputs, double flops);

// One operation, whose operands and results are all of the memory.
Cost InOperands(const Operation& operation);

// The same work repeated `times` times: operations and collective ones repeat, resident memory does not grow.
Cost Repeated(Cost cost, double times);

}  // namespace roofbench::workload
