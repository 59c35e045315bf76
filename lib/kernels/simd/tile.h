// SPDX-License-Identifier: Apache-2.0
// Products of tiles, 16 rows of 64 bytes each: by tile registers (Intel AMX), of which there are eight, or by vectors.
// Code for tiles is a template over HardwareTiles, which has the instructions of the registers, VectorTiles, and
// EmulatedTiles, which computes the same on every processor, for tests. In a build with ROOFBENCH_EMULATE_TILES, which
// is for tests alone, every processor has tiles: the emulated ones.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {

inline constexpr int kTileRegisters = 8;
inline constexpr int kTileRows = 16;
inline constexpr int kTileRowBytes = 64;
inline constexpr int kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int kTileColumns = 16;  // of sums, 32 bits each

// Rows of x from which a linear layer takes tile registers, be they half empty. Few rows are bound by the bytes of the
// weight, of which a core multiplies at least 32 a cycle by registers, however full: several times what memory gives
// it.
inline constexpr int64_t kLeastTileLinearRows = kTileRows / 2;

// How a product reads its operands; sums are fp32 or int32. Row m of x holds 16 groups of 4 bytes, and row k of y holds
// group k of each of 16 columns n: sums[m][n] += the dot products of x[m][k] and y[k][n] over all k.
enum class TileProduct {
  kBf16,         // TDPBF16PS: groups of two bf16
  kInt8,         // TDPBSSD: groups of four signed bytes
  kInt8ByUint8,  // TDPBSUD: the same, of which those of y are unsigned
  kFp32,         // by vectors alone: a group is an element
};

// Multiply-adds of one product.
constexpr int TileMultiplyAdds(TileProduct product) {
  const int of_group = product == TileProduct::kFp32 ? 1 : product == TileProduct::kBf16 ? 2 : 4;
  return kTileRows * kTileColumns * kTileColumns * of_group;
}

#if ROOFBENCH_X86 && !ROOFBENCH_EMULATE_TILES
// The tile registers of the calling thread, all of full size while this lives. Needs kAmxBf16 or kAmxInt8, by product.
// Inline assembly, because the intrinsics take only literal register numbers.
class HardwareTiles {
 public:
  HardwareTiles() {
    // The operand of LDTILECFG (Intel SDM, volume 2A).
    struct alignas(kTileRowBytes) Configuration {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      std::array<uint8_t, 14> reserved = {};
      std::array<uint16_t, 16> row_bytes = {};
      std::array<uint8_t, 16> rows = {};
    };
    static_assert(sizeof(Configuration) == kTileRowBytes);
    Configuration configuration;
    for (std::size_t tile = 0; tile < kTileRegisters; ++tile) {
      configuration.row_bytes[tile] = kTileRowBytes;
      configuration.rows[tile] = kTileRows;
    }
    asm volatile("ldtilecfg %0" ::"m"(configuration) : "memory");
  }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;
  // Otherwise each context switch of this thread would save 8 KiB.
  ~HardwareTiles() { asm volatile("tilerelease" ::: "memory"); }

  template <int kTile>
  void Zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  void Load(const std::byte* from, int64_t row_stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void Store(std::byte* to, int64_t row_stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_stride), "i"(kTile) : "memory");
  }
  template <TileProduct kProduct, int kSums, int kX, int kY>
  void MultiplyAdd() {
    if constexpr (kProduct == TileProduct::kBf16) {
      asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kY));
    } else if constexpr (kProduct == TileProduct::kInt8) {
      asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kY));
    } else {
      asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kX), "i"(kY));
    }
  }
};
#endif

// sums += x · y, of tiles without gaps.
void EmulateTileProduct(TileProduct product, const std::byte* x, const std::byte* y, std::byte* sums);

class EmulatedTiles {
 public:
  template <int kTile>
  void Zero() {
    std::memset(Row(kTile, 0), 0, kTileBytes);
  }
  template <int kTile>
  void Load(const std::byte* from, int64_t row_stride) {
    for (int64_t row = 0; row < kTileRows; ++row) std::memcpy(Row(kTile, row), from + row * row_stride, kTileRowBytes);
  }
  template <int kTile>
  void Store(std::byte* to, int64_t row_stride) {
    for (int64_t row = 0; row < kTileRows; ++row) std::memcpy(to + row * row_stride, Row(kTile, row), kTileRowBytes);
  }
  template <TileProduct kProduct, int kSums, int kX, int kY>
  void MultiplyAdd() {
    EmulateTileProduct(kProduct, Row(kX, 0), Row(kY, 0), Row(kSums, 0));
  }

 private:
  std::byte* Row(std::size_t tile, std::size_t row) { return &registers_[tile * kTileBytes + row * kTileRowBytes]; }

  std::array<std::byte, static_cast<std::size_t>(kTileRegisters)* kTileBytes> registers_ = {};
};

#if ROOFBENCH_EMULATE_TILES
using HardwareTiles = EmulatedTiles;
#endif

// Vectors of 16 sums: of a row of x, a group at a time, with 16 columns of y; or with 1, 2, 4 or 8, of which a vector
// then holds 16, 8, 4 or 2 adjacent groups each. Needs kAvx512Bf16, kAvx512Vnni, or for fp32 kAvx512.
class VectorTiles {};
// The most columns that are packed so.
inline constexpr int64_t kFewTileColumns = 8;

// Where MultiplyTiles finds an operand, and where its sums; distances are in bytes.
struct TileOperand {
  const std::byte* data;
  int64_t row;     // from a row of a tile to the next
  int64_t second;  // to the second tile
  int64_t step;    // to the operand of the next step
  // From the rows that vectors multiply to those that they prefetch once they near the end of their own; 0: to the
  // next.
  int64_t ahead = 0;
};
struct TileSums {
  std::byte* data;
  int64_t row;
  int64_t second_of_x;
  int64_t second_of_y;
};

// MultiplyTiles of tile registers.
template <typename Tiles, TileProduct kProduct, int kOfX, int kOfY>
void MultiplyInRegisters(Tiles& tiles, const TileOperand& x, const TileOperand& y, int64_t steps, bool add,
                         const TileSums& sums, std::byte* kept) {
  const auto each_sum = [&](const auto& function) {
    function(std::integral_constant<int, 0>(), sums.data);
    if constexpr (kOfY == 2) function(std::integral_constant<int, 1>(), sums.data + sums.second_of_y);
    if constexpr (kOfX == 2) function(std::integral_constant<int, 2>(), sums.data + sums.second_of_x);
    if constexpr (kOfX == 2 && kOfY == 2) {
      function(std::integral_constant<int, 3>(), sums.data + sums.second_of_x + sums.second_of_y);
    }
  };
  each_sum([&](auto tile, const std::byte* from) {
    if (add) {
      tiles.template Load<tile>(from, sums.row);
    } else {
      tiles.template Zero<tile>();
    }
  });
  const std::byte* of_x = x.data;
  const std::byte* of_y = y.data;
  for (int64_t step = 0; step < steps; ++step, of_x += x.step, of_y += y.step) {
    tiles.template Load<4>(of_x, x.row);
    if (kept != nullptr) tiles.template Store<4>(kept, kTileRowBytes);
    tiles.template Load<6>(of_y, y.row);
    tiles.template MultiplyAdd<kProduct, 0, 4, 6>();
    if constexpr (kOfY == 2) {
      tiles.template Load<7>(of_y + y.second, y.row);
      tiles.template MultiplyAdd<kProduct, 1, 4, 7>();
    }
    if constexpr (kOfX == 2) {
      tiles.template Load<5>(of_x + x.second, x.row);
      if (kept != nullptr) tiles.template Store<5>(kept + kTileBytes, kTileRowBytes);
      tiles.template MultiplyAdd<kProduct, 2, 5, 6>();
      if constexpr (kOfY == 2) tiles.template MultiplyAdd<kProduct, 3, 5, 7>();
    }
    if (kept != nullptr) kept += std::ptrdiff_t{kOfX} * kTileBytes;
  }
  each_sum([&](auto tile, std::byte* to) { tiles.template Store<tile>(to, sums.row); });
}

// MultiplyTiles of VectorTiles. With kOfY = 1, a step of y of fewer than 16 lines has as many columns.
template <TileProduct kProduct, int kOfX, int kOfY>
void MultiplyByVectors(const TileOperand& x, const TileOperand& y, int64_t steps, bool add, const TileSums& sums);

// Adds the products of kOfX tiles of x and kOfY of y (1 or 2 each) over all steps to their sums: to the previous ones
// if `add`, to zeros otherwise. `kept`: where the tiles of x are copied to, step after step, for the next products with
// them; nullptr: nowhere.
template <typename Tiles, TileProduct kProduct, int kOfX, int kOfY>
void MultiplyTiles(Tiles& tiles, const TileOperand& x, const TileOperand& y, int64_t steps, bool add,
                   const TileSums& sums, std::byte* kept = nullptr) {
  if constexpr (std::is_same_v<Tiles, VectorTiles>) {
    return MultiplyByVectors<kProduct, kOfX, kOfY>(x, y, steps, add, sums);
  } else {
    MultiplyInRegisters<Tiles, kProduct, kOfX, kOfY>(tiles, x, y, steps, add, sums, kept);
  }
}
}  // namespace roofbench::kernels
