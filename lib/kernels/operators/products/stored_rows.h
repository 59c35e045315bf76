// SPDX-License-Identifier: Apache-2.0
// Weights in int4 as the rows of a product in bf16 by tiles, to which a panel converts them a slab at a time.
#pragma once

#include <cstddef>

#include "lib/kernels/operators/products/tile_product.h"
#include "lib/kernels/operators/products/weights.h"
#include "lib/kernels/threading/parallel_for.h"

namespace roofbench::kernels {

// As UnpackInt4. Panels begin with a tile.
class StoredInt4 final : public StoredRows {
 public:
  explicit StoredInt4(const Int4Weight& weight) : weight_(weight) {}
  void Pack(Range rows, Range columns, std::byte* slab) const override;

 private:
  Int4Weight weight_;
};

}  // namespace roofbench::kernels
