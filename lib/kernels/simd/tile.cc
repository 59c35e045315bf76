// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/simd/tile.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace roofbench::kernels {
namespace {

using Emulation = void (*)(TileProduct product, const std::byte* x, const std::byte* y, std::byte* sums);

// Denormals count as zero, as operands and as results.
[[gnu::always_inline]] inline float Flushed(uint32_t bits) {
  constexpr uint32_t kExponent = 0x7f800000;
  constexpr uint32_t kSign = 0x80000000;
  return std::bit_cast<float>((bits & kExponent) != 0 ? bits : bits & kSign);
}
[[gnu::always_inline]] inline float Flushed(float value) { return Flushed(std::bit_cast<uint32_t>(value)); }

template <typename T>
[[gnu::always_inline]] inline T At(const std::byte* tile, std::size_t row, std::size_t column) {
  T value;
  std::memcpy(&value, tile + row * kTileRowBytes + column * sizeof(T), sizeof(T));
  return value;
}

// The even and the odd elements have a sum each, by fused multiply-adds; both are added at the end (Intel SDM, volume
// 2B, TDPBF16PS).
[[gnu::always_inline]] inline void MultiplyBf16(const std::byte* x, const std::byte* y, std::byte* sums) {
  constexpr uint32_t kOdd = 0xffff0000;
  for (std::size_t m = 0; m < kTileRows; ++m) {
    float even[kTileColumns] = {};
    float odd[kTileColumns] = {};
    for (std::size_t k = 0; k < kTileColumns; ++k) {
      const auto of_x = At<uint32_t>(x, m, k);
      for (std::size_t n = 0; n < kTileColumns; ++n) {
        const auto of_y = At<uint32_t>(y, k, n);
        even[n] = Flushed(__builtin_fmaf(Flushed(of_x << 16), Flushed(of_y << 16), even[n]));
        odd[n] = Flushed(__builtin_fmaf(Flushed(of_x & kOdd), Flushed(of_y & kOdd), odd[n]));
      }
    }
    for (std::size_t n = 0; n < kTileColumns; ++n) {
      even[n] = Flushed(Flushed(At<uint32_t>(sums, m, n)) + Flushed(even[n] + odd[n]));
    }
    std::memcpy(sums + m * kTileRowBytes, even, sizeof(even));
  }
}

[[gnu::always_inline]] inline void MultiplyFp32(const std::byte* x, const std::byte* y, std::byte* sums) {
  for (std::size_t m = 0; m < kTileRows; ++m) {
    float totals[kTileColumns];
    std::memcpy(totals, sums + m * kTileRowBytes, sizeof(totals));
    for (std::size_t k = 0; k < kTileColumns; ++k) {
      const auto of_x = At<float>(x, m, k);
      for (std::size_t n = 0; n < kTileColumns; ++n) totals[n] = __builtin_fmaf(of_x, At<float>(y, k, n), totals[n]);
    }
    std::memcpy(sums + m * kTileRowBytes, totals, sizeof(totals));
  }
}

// Wraps around.
template <typename OfY>
[[gnu::always_inline]] inline void MultiplyInt8(const std::byte* x, const std::byte* y, std::byte* sums) {
  for (std::size_t m = 0; m < kTileRows; ++m) {
    uint32_t totals[kTileColumns];
    std::memcpy(totals, sums + m * kTileRowBytes, sizeof(totals));
    for (std::size_t k = 0; k < kTileColumns; ++k) {
      const auto of_x = At<uint32_t>(x, m, k);
      for (int shift = 0; shift < 32; shift += 8) {
        const int32_t factor = static_cast<int8_t>(of_x >> shift);
        for (std::size_t n = 0; n < kTileColumns; ++n) {
          totals[n] += static_cast<uint32_t>(factor * static_cast<OfY>(At<uint32_t>(y, k, n) >> shift));
        }
      }
    }
    std::memcpy(sums + m * kTileRowBytes, totals, sizeof(totals));
  }
}

[[gnu::always_inline]] inline void Multiply(TileProduct product, const std::byte* x, const std::byte* y,
                                            std::byte* sums) {
  switch (product) {
    case TileProduct::kBf16:
      return MultiplyBf16(x, y, sums);
    case TileProduct::kInt8:
      return MultiplyInt8<int8_t>(x, y, sums);
    case TileProduct::kInt8ByUint8:
      return MultiplyInt8<uint8_t>(x, y, sums);
    case TileProduct::kFp32:
      return MultiplyFp32(x, y, sums);
  }
}

// The same loops, which the compiler turns into vectors: models by tiles are tested with them.
void MultiplyAnywhere(TileProduct product, const std::byte* x, const std::byte* y, std::byte* sums) {
  Multiply(product, x, y, sums);
}
#if ROOFBENCH_X86
ROOFBENCH_TARGET_AVX512 void MultiplyByAvx512(TileProduct product, const std::byte* x, const std::byte* y,
                                              std::byte* sums) {
  Multiply(product, x, y, sums);
}
#endif

constexpr IsaVariant<Emulation> kEmulations[] = {
#if ROOFBENCH_X86
    {kAvx512, MultiplyByAvx512},
#endif
    {0, MultiplyAnywhere},
};

}  // namespace

void EmulateTileProduct(TileProduct product, const std::byte* x, const std::byte* y, std::byte* sums) {
  BestVariant<kEmulations>()(product, x, y, sums);
}

}  // namespace roofbench::kernels
