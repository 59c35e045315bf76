// SPDX-License-Identifier: Apache-2.0
// Vectors as 16-bit fixed point, the form in which products with int8 and int4 weights take them, and the product of an
// int8 weight with several of them by tiles: its rows as they lie meet the upper and the lower byte of a vector as two
// columns. That replaced the conversion of the weight to bf16 a slab at a time, which took 1.42 times as long with 16
// vectors and 1.14 times with 64 (one core of an EPYC, Zen 4, 2026-11-29).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/simd/floats.h"
#include "lib/kernels/simd/streaming.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// A vector as 16-bit fixed point in two signed bytes: x[i] ≈ scales[i / kBlock] · (256 · high[i] + low[i]). Bytes,
// because the 8-bit dot product is twice as fast as the 16-bit one and takes weights as they are.
struct FixedPoint {
  static constexpr int64_t kBlock = 1024;
  static constexpr int64_t kLanes = 16;

  std::vector<Line<int8_t>> high;  // zeros from k to a multiple of kBlock
  std::vector<Line<int8_t>> low;
  std::vector<float> scales;
  // For weights that are stored with an offset, in units of the block's scale:
  std::vector<int32_t> lane_sums;   // [blocks, kLanes]: sums of the elements that one 32-bit lane multiplies, times 128
  std::vector<int32_t> group_sums;  // [k / group], times -8
  std::vector<float> group_floats;  // [k / group]
};

#if ROOFBENCH_X86
// Needs kAvx512Vnni. Converts x[k]; `group` (0: none) is that of group_sums. False where x is not finite or so small
// that its scale would not be finite: such activations need PortableRows.
bool Avx512Convert(const Bf16* x, int64_t k, int64_t group, FixedPoint& to);
#endif

// Vectors as the columns of tiles.
class FixedPointColumns {
 public:
  // Of so many vectors, how many take less time by tiles, which hold 16 of them, 8 or 4, than a few at a time; 0
  // without tiles.
  static int64_t Taken(int64_t vectors);

  void Pack(const FixedPoint* const* x, int64_t vectors, int64_t k, const ParallelFor& parallel);
  // y[v · weight.n + row] of the packed vectors, on the calling thread. Y: float or Bf16.
  template <typename Y>
  void RunRows(const Int8Weight& weight, Range rows, Y* y) const;
  int64_t vectors() const { return vectors_; }

 private:
  static constexpr int64_t kGroup = 16;  // vectors

  int64_t groups() const { return CeilDiv(vectors_, kGroup); }
  // Groups of two tiles, the first of upper bytes and the second of lower ones. A rest of at most half of a group is
  // one tile, or the few columns of one, with the lower bytes this many columns after the upper ones.
  int64_t whole_groups() const { return (vectors_ + kGroup / 2 - 1) / kGroup; }
  int64_t distance_in_rest() const;

  int64_t vectors_ = 0;
  // [block][group]: a panel of the block's columns.
  std::vector<Line<std::byte>> panels_;
  std::vector<float> scales_;  // [block][group][kGroup]
};

// Several vectors. Its memory grows with the largest x so far.
class FixedPointVectors {
 public:
  // x [m, k], for weights in int8 (`group` 0) or int4.
  void Convert(const Bf16* x, int64_t m, int64_t k, int64_t group, const ParallelFor& parallel);

  // Whether all of them are finite, and this processor multiplies in fixed point.
  bool are_fixed() const { return are_fixed_; }
  // [m]; nullptr: in floats.
  const FixedPoint* const* fixed() const { return fixed_.data(); }
  const float* floats(int64_t vector) const { return forms_[static_cast<std::size_t>(vector)].floats.data(); }
  // The first vectors as columns, as many as tiles take.
  const FixedPointColumns& columns() const { return columns_; }

 private:
  struct Form {
    FixedPoint fixed;
    std::vector<float> floats;
  };
  std::vector<Form> forms_;
  std::vector<const FixedPoint*> fixed_;
  bool are_fixed_ = false;
  FixedPointColumns columns_;
};

}  // namespace roofbench::kernels
