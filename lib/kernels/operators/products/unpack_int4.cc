// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/operators/products/unpack_int4.h"

#include <cstring>

#include "lib/kernels/operators/products/unpack_int4_avx512.h"
#include "lib/kernels/simd/isa.h"

namespace roofbench::kernels {
namespace {

template <typename T>
void UnpackTiles(const Int4Weight& weight, Range tiles, T* to) {
  constexpr int64_t kPerWord = 8;
  for (int64_t tile = tiles.begin; tile < tiles.end; ++tile, to += kInt4TileRows * weight.k) {
    const std::byte* from = weight.data + tile * Int4TileBytes(weight.k, weight.group);
    for (int64_t g = 0; g < weight.k; g += weight.group, from += Int4GroupBytes(weight.group)) {
      uint32_t words[kInt4TileRows];
      float scale[kInt4TileRows];
      float zero[kInt4TileRows];
      std::memcpy(words, from, sizeof(words));
      for (int64_t r = 0; r < kInt4TileRows; ++r) {
        scale[r] = ToFloat(Bf16{static_cast<uint16_t>(words[r] & 0xffffU)});
        zero[r] = ToFloat(Bf16{static_cast<uint16_t>(words[r] >> 16)}) - 8 * scale[r];
      }
      for (int64_t j = 0; j < weight.group / kPerWord; ++j) {
        std::memcpy(words, from + (j + 1) * static_cast<int64_t>(sizeof(words)), sizeof(words));
        for (int64_t r = 0; r < kInt4TileRows; ++r) {
          T* const row = to + r * weight.k + g + j * kPerWord;
          for (int64_t byte = 0; byte < kPerWord / 2; ++byte) {
            const uint32_t pair = words[r] >> (8 * byte);
            row[byte] = Rounded<T>(static_cast<float>(pair & 15U) * scale[r] + zero[r]);
            row[kPerWord / 2 + byte] = Rounded<T>(static_cast<float>((pair >> 4) & 15U) * scale[r] + zero[r]);
          }
        }
      }
    }
  }
}

constexpr IsaVariant<void (*)(const Int4Weight& weight, Range tiles, Bf16* to)> kVariants[] = {
#if ROOFBENCH_X86
    {kAvx512Bf16, avx512::UnpackInt4},
#endif
    {0, UnpackTiles<Bf16>},
};

}  // namespace

void UnpackInt4(const Int4Weight& weight, Range tiles, float* to) { UnpackTiles(weight, tiles, to); }

void UnpackInt4(const Int4Weight& weight, Range tiles, Bf16* to) { BestVariant<kVariants>()(weight, tiles, to); }

}  // namespace roofbench::kernels
