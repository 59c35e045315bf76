// SPDX-License-Identifier: Apache-2.0
// Operators that go through arrays once, element by element. Their FLOPs are nominal, in fp32 whatever the storage:
// bytes decide.
#pragma once

#include <cstdint>

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// y = GELU(x).
struct Gelu {
  static constexpr double kFlops = 8;  // per element: an error function, two products, an addition
  double elements = 0;
  Dtype dtype = Dtype::kFp32;  // of x and y

  Operation Forward() const { return Map(elements, dtype, 1, kFlops); }
  // Reads x and dy, writes dx.
  Operation Backward() const { return Map(elements, dtype, 2, kFlops); }
  Cost ForwardCost() const { return InOperands(Forward()); }
};

// y = silu(gate) · up: the middle of a SwiGLU block.
struct SiluMul {
  static constexpr double kFlops = 6;  // a negation, an exponential, a sum, a quotient, two products
  double elements = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const { return Map(elements, dtype, 2, kFlops); }
  Cost ForwardCost() const { return InOperands(Forward()); }
};

// Rotary position embedding: pairs of elements, rotated by angles from a table. The fp32 cosines and sines of every
// position are read once for all heads.
struct Rope {
  static constexpr double kFlops = 3;  // per element: two products, one sum
  double heads = 0;
  double tokens = 0;
  double head_dim = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const {
    Operation operation = Map(heads * tokens * head_dim, dtype, 1, kFlops);
    operation.bytes_read += tokens * head_dim * ElementBytes(Dtype::kFp32);  // two tables of half a head's length
    return operation;
  }
  Cost ForwardCost() const { return InOperands(Forward()); }
};

// Looks up rows of a table by their numbers: the step from tokens to vectors, without arithmetic. A token reads its
// index (int64) and its row, and writes the row; a row that two tokens name counts twice.
struct Embedding {
  double vocabulary = 0;  // rows of the table
  double tokens = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const {
    Operation operation = Map(tokens * cols, dtype, 1, 0);
    operation.bytes_read += tokens * sizeof(int64_t);
    return operation;
  }
  // Memory holds the whole table.
  Cost ForwardCost() const {
    Cost cost = InOperands(Forward());
    cost.resident_bytes += (vocabulary - tokens) * cols * ElementBytes(dtype);
    return cost;
  }
};

// A step of AdamW over fp32 parameters: an element reads its gradient (4 B) and updates parameter, mean and square in
// place (12 B, each read and written), 28 B of traffic.
struct AdamW {
  static constexpr double kFlops = 14;  // per element
  double parameters = 0;

  Operation Step() const {
    const double bytes = parameters * ElementBytes(Dtype::kFp32);
    return Operation{.bytes_read = bytes, .bytes_updated = 3 * bytes}.WithFlops(Dtype::kFp32, kFlops * parameters);
  }
  Cost StepCost() const { return InOperands(Step()); }
};

// Plain memory traffic: the streams whose rates are the bandwidth roof.

// Reads `bytes` bytes.
struct ReadStream {
  double bytes = 0;
  workload::Cost Cost() const { return InOperands({.bytes_read = bytes}); }
};

// Reads `bytes` bytes and writes as many elsewhere.
struct CopyStream {
  double bytes = 0;
  workload::Cost Cost() const { return InOperands({.bytes_read = bytes, .bytes_written = bytes}); }
};

// Adds to `bytes` bytes in place.
struct UpdateStream {
  double bytes = 0;
  workload::Cost Cost() const { return InOperands({.bytes_updated = bytes}); }
};

// Writes `bytes` bytes, whatever was there before.
struct WriteStream {
  double bytes = 0;
  workload::Cost Cost() const { return InOperands({.bytes_written = bytes}); }
};

}  // namespace roofbench::workload
