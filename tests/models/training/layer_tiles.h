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
  int64_t Products() const { return products_.by_tiles - first_; }
  int64_t LibraryProducts() const { return products_.by_library - first_of_library_; }

 private:
  LayerProducts& products_ = LayerProducts::OfProcess();
  const kernels::TileLinearKernels* const before_ = products_.tiles;
  MeasuredChoice* const choice_before_ = products_.choice;
  const int64_t first_ = products_.by_tiles;
  const int64_t first_of_library_ = products_.by_library;
};

}  // namespace roofbench::models
