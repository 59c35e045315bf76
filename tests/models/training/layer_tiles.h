// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lib/models/training/transformer_model.h"

namespace roofbench::models {

// While it lives, NativeLayers multiply in bf16 by emulated tiles, or by none.
class EmulatedLayerTiles {
 public:
  explicit EmulatedLayerTiles(bool on = true, MeasuredChoice* choice = nullptr) {
    products_.tiles = on ? &kernels::kTileLinearKernels<kernels::EmulatedTiles> : nullptr;
    products_.choice = choice;
  }
  EmulatedLayerTiles(const EmulatedLayerTiles&) = delete;
  EmulatedLayerTiles& operator=(const EmulatedLayerTiles&) = delete;
  ~EmulatedLayerTiles() {
    products_.tiles = before_;
    products_.choice = choice_before_;
  }

  // By tiles since then, and by LibTorch because it was faster.
  int64_t Products() const { return products_.by_tiles - first_.by_tiles; }
  int64_t LibraryProducts() const { return products_.by_library - first_.by_library; }

 private:
  LayerProducts& products_ = LayerProducts::OfProcess();
  const kernels::TileLinearKernels* const before_ = products_.tiles;
  MeasuredChoice* const choice_before_ = products_.choice;
  const LayerProducts::Counts first_ = products_.Now();
};

}  // namespace roofbench::models
