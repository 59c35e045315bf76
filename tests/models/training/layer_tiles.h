// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/models/training/transformer_model.h"

namespace roofbench::models {

// While it lives, NativeLayers multiply in bf16 by emulated tiles, or by none.
class EmulatedLayerTiles {
 public:
  explicit EmulatedLayerTiles(bool on = true) {
    products_.tiles = on ? &kernels::kTileLinearKernels<kernels::EmulatedTiles> : nullptr;
  }
  EmulatedLayerTiles(const EmulatedLayerTiles&) = delete;
  EmulatedLayerTiles& operator=(const EmulatedLayerTiles&) = delete;
  ~EmulatedLayerTiles() { products_.tiles = before_; }

  // By tiles since then.
  int64_t Products() const { return products_.by_tiles - first_; }

 private:
  LayerProducts& products_ = LayerProducts::OfProcess();
  const kernels::TileLinearKernels* const before_ = products_.tiles;
  const int64_t first_ = products_.by_tiles;
};

}  // namespace roofbench::models
