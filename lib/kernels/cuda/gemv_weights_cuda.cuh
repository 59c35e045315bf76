// SPDX-License-Identifier: Apache-2.0
// How each type of weights lies in memory and becomes fp32. A thread loads kColumns columns of a row at once, as Raw,
// and multiplies them kPiece columns at a time with x.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::kernels {

template <int kColumns>
struct Piece {
  float at[kColumns];
};

__device__ inline void LoadPiece(const float* from, Piece<4>& piece) {
  const float4 raw = __ldg(reinterpret_cast<const float4*>(from));
  piece = {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ inline void LoadPiece(const __nv_bfloat16* from, Piece<4>& piece) {
  const uint2 raw = __ldg(reinterpret_cast<const uint2*>(from));
  piece = {{LowBf16(raw.x), HighBf16(raw.x), LowBf16(raw.y), HighBf16(raw.y)}};
}
__device__ inline void LoadPiece(const __nv_bfloat16* from, Piece<8>& piece) {
  const uint4 raw = __ldg(reinterpret_cast<const uint4*>(from));
  piece = {{LowBf16(raw.x), HighBf16(raw.x), LowBf16(raw.y), HighBf16(raw.y), LowBf16(raw.z), HighBf16(raw.z),
            LowBf16(raw.w), HighBf16(raw.w)}};
}

// With the other loads of a vector, and not where it is used.
__device__ inline float LoadOne(const __nv_bfloat16* from) {
  return LowBf16(__ldg(reinterpret_cast<const unsigned short*>(from)));
}

// The 32-bit words of what a thread loads at once.
__device__ inline unsigned Word(const uint2& raw, int i) { return i == 0 ? raw.x : raw.y; }
__device__ inline unsigned Word(const uint4& raw, int i) {
  return i == 0 ? raw.x : i == 1 ? raw.y : i == 2 ? raw.z : raw.w;
}

struct Fp32Weights {
  using X = float;
  using Raw = float4;
  static constexpr int kColumns = 4;
  static constexpr int kPiece = 4;
  static constexpr bool kGrouped = false;
  const float* weight;
  __device__ Raw Load(int64_t element) const { return __ldg(reinterpret_cast<const Raw*>(weight + element)); }
  __device__ static Piece<4> Weights(const Raw& raw, int /*piece*/) { return {{raw.x, raw.y, raw.z, raw.w}}; }
  __device__ float RowScale(int64_t /*row*/) const { return 1; }
};

struct Bf16Weights {
  using X = __nv_bfloat16;
  using Raw = uint4;
  static constexpr int kColumns = 8;
  static constexpr int kPiece = 8;
  static constexpr bool kGrouped = false;
  const __nv_bfloat16* weight;
  __device__ Raw Load(int64_t element) const { return __ldg(reinterpret_cast<const Raw*>(weight + element)); }
  __device__ static Piece<8> Weights(const Raw& raw, int /*piece*/) {
    Piece<8> piece;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      piece.at[2 * i] = LowBf16(Word(raw, i));
      piece.at[2 * i + 1] = HighBf16(Word(raw, i));
    }
    return piece;
  }
  __device__ float RowScale(int64_t /*row*/) const { return 1; }
};

// Words: uint4, or uint2 where rows are no multiple of 16 columns.
template <typename Words, int kColumnsOfPiece>
struct Int8Weights {
  using X = __nv_bfloat16;
  using Raw = Words;
  static constexpr int kColumns = sizeof(Words);
  static constexpr int kPiece = kColumnsOfPiece;
  static constexpr bool kGrouped = false;
  const int8_t* weight;
  const float* scale;  // [rows]
  __device__ Raw Load(int64_t element) const { return __ldg(reinterpret_cast<const Raw*>(weight + element)); }
  // Conversions run at a quarter of the rate of sums: the byte goes into the last bits of 2^23, which are units there.
  __device__ static Piece<kPiece> Weights(const Raw& raw, int piece) {
    constexpr unsigned kExponent = 0x4b000000;      // of 2^23
    constexpr float kOffset = 8388608.0F + 128.0F;  // signed bytes are made unsigned
    Piece<kPiece> weights;
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const int byte = piece * kPiece + i;
      const unsigned bytes = Word(raw, byte / 4) ^ 0x80808080u;
      const unsigned chosen = 0x7440u + static_cast<unsigned>(byte % 4);
      weights.at[i] = __uint_as_float(__byte_perm(bytes, kExponent, chosen)) - kOffset;
    }
    return weights;
  }
  __device__ float RowScale(int64_t row) const { return __ldg(scale + row); }
};

// Weights come as q plus an offset, which differs between even and odd columns and is taken away from the products of
// a whole vector: where four bits of a word lie in the fraction of an fp32, its exponent alone makes them units.
struct Int4Weights {
  using X = __nv_bfloat16;
  using Raw = uint4;
  static constexpr int kColumns = 32;
  static constexpr int kPiece = 8;
  static constexpr bool kGrouped = true;
  static constexpr float kEvenOffset = 128.0F + 8.0F;
  static constexpr float kOddOffset = 2048.0F + 8.0F;

  const uint8_t* weight;
  const __nv_bfloat16* scale;  // [rows][groups], as `zero`
  const __nv_bfloat16* zero;
  int group_shift;  // a group has 2^group_shift columns: a vector never has two
  int64_t groups;   // of a row
  // Of 2^7, whose units are bit 16, and of 2^11, whose units are bit 12; q counts from 8. They are no constants,
  // because an instruction takes one of those, and that is the mask: two for each weight would be a fifth of all
  // instructions.
  unsigned even_exponent = 0x43000000;
  unsigned odd_exponent = 0x45000000;

  __device__ Raw Load(int64_t element) const { return __ldg(reinterpret_cast<const Raw*>(weight + element / 2)); }
  __device__ Piece<8> Weights(const Raw& raw, int piece) const {
    const unsigned word = Word(raw, piece);
    return {{Even(word << 16), Odd(word << 8), Even(word << 8), Odd(word), Even(word), Odd(word >> 8), Even(word >> 8),
             Odd(word >> 16)}};
  }
  __device__ float Scale(int64_t row, int column) const {
    return LoadOne(scale + row * groups + (column >> group_shift));
  }
  __device__ float Zero(int64_t row, int column) const {
    return LoadOne(zero + row * groups + (column >> group_shift));
  }
  __device__ float RowScale(int64_t /*row*/) const { return 1; }

 private:
  __device__ float Even(unsigned word) const { return __uint_as_float((word & 0x000f0000u) | even_exponent); }
  __device__ float Odd(unsigned word) const { return __uint_as_float((word & 0x0000f000u) | odd_exponent); }
};

}  // namespace roofbench::kernels
