// SPDX-License-Identifier: Apache-2.0
// The activation y = GELU(x), element by element.
#pragma once

#include "lib/workload/cost.h"
#include "lib/workload/dtype.h"

namespace roofbench::workload {

// FLOPs: a nominal 8 per element, in fp32 whatever the storage (an error function, two products, an addition); bytes
// decide.
struct Gelu {
  double elements = 0;
  Dtype dtype = Dtype::kFp32;  // of x and y

  // Reads x, writes y.
  Operation Forward() const;
  // Reads x and dy, writes dx.
  Operation Backward() const;

  Cost ForwardCost() const;
};

// y = silu(gate) · up, element by element: the middle of a SwiGLU block.

// FLOPs: a nominal 6 per element, in fp32 whatever the storage (a negation, an exponential, a sum, a quotient, two
// products); bytes decide: gate and up are read, y is written.
struct SiluMul {
  static constexpr double kFlops = 6;  // per element
  double elements = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

// Rotary position embedding: pairs of elements, rotated by angles from a table.

// FLOPs: 3 per element (two products, one sum), in fp32 whatever the storage; bytes decide: x is read and y written
// once, and the fp32 cosines and sines of every position are read once for all heads.
struct Rope {
  static constexpr double kFlops = 3;  // per element
  double heads = 0;
  double tokens = 0;
  double head_dim = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

// Looks up rows of a table by their numbers: the step from tokens to vectors.

// Without arithmetic. A token reads its index (int64) and its row, and writes the row; a row that two tokens name
// counts twice.
struct Embedding {
  double vocabulary = 0;  // rows of the table
  double tokens = 0;
  double cols = 0;
  Dtype dtype = Dtype::kFp32;

  Operation Forward() const;
  Cost ForwardCost() const;
};

// A step of AdamW over fp32 parameters.

// Bytes decide: an element reads its gradient (4 B) and updates parameter, mean and square in place (12 B, each read
// and written), 28 B of traffic. FLOPs: a nominal 14 per element.
struct AdamW {
  static constexpr double kFlops = 14;  // per element
  double parameters = 0;

  Operation Step() const;
  Cost StepCost() const;
};

// Plain memory traffic: the streams whose rates are the bandwidth roof.

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
