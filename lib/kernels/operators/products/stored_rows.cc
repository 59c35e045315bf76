// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/stored_rows.h"

#include <cstddef>
#include <cstdint>

namespace roofbench::kernels {
namespace {

constexpr int64_t kColumns = kTileRowBytes / int64_t{sizeof(Bf16)};  // of a step
constexpr int64_t kStep = kPanelStepBytes / int64_t{sizeof(Bf16)};   // in elements, as are all distances here

// Of a slab: [step][tile][row][kColumns].
Bf16* RowOf(std::byte* slab, int64_t row) { return reinterpret_cast<Bf16*>(slab) + row * kColumns; }

}  // namespace

void StoredInt4::Pack(Range rows, Range columns, std::byte* slab) const {
  for (int64_t row = 0; row < rows.size(); row += kInt4TileRows) {
    UnpackInt4Columns(weight_, (rows.begin + row) / kInt4TileRows, columns, RowOf(slab, row), kColumns, kStep);
  }
}

}  // namespace roofbench::kernels
