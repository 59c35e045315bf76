// SPDX-License-Identifier: Apache-2.0
#include "lib/kernels/cuda/launch_cuda.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::kernels {

// The memory layout of each weight type and its conversion to fp32. A thread loads kColumns columns of a row at once,
// as Raw, and multiplies them kPiece columns at a time with x.

__device__ inline void LoadPiece(const float* from, Piece<4>& piece) {
  const float4 raw = __ldg(reinterpret_cast<const float4*>(from));
  piece = {{raw.x, raw.y, raw.z, raw.w}};
}
__device__ inline void LoadPiece(const __nv_bfloat16* from, Piece<4>& piece) {
  const uint2 raw = __ldg(reinterpret_cast<const uint2*>(from));
  piece = {{LowBf16(raw.x), HighBf16(raw.x), LowBf16(raw.y), HighBf16(raw.y)}};
}
__device__ inline void LoadPiece(const __nv_bfloat16* from, Piece<8>& piece) { piece = Load(from); }

// Load it with the other loads of a vector, not where it is used.
__device__ inline float LoadOne(const __nv_bfloat16* from) {
  return LowBf16(__ldg(reinterpret_cast<const unsigned short*>(from)));
}

// The 32-bit words that a thread loads at once.
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
  __device__ Raw Load(int64_t element) const { return LoadOnce(reinterpret_cast<const Raw*>(weight + element)); }
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
  __device__ Raw Load(int64_t element) const { return LoadOnce(reinterpret_cast<const Raw*>(weight + element)); }
  __device__ static Piece<8> Weights(const Raw& raw, int /*piece*/) { return FromBf16(raw); }
  __device__ float RowScale(int64_t /*row*/) const { return 1; }
};

// Words: uint4, or uint2 where the columns of a row are not a multiple of 16.
template <typename Words, int kColumnsOfPiece>
struct Int8Weights {
  using X = __nv_bfloat16;
  using Raw = Words;
  static constexpr int kColumns = sizeof(Words);
  static constexpr int kPiece = kColumnsOfPiece;
  static constexpr bool kGrouped = false;
  const int8_t* weight;
  const float* scale;  // [rows]
  __device__ Raw Load(int64_t element) const { return LoadOnce(reinterpret_cast<const Raw*>(weight + element)); }
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

// Weights arrive as q plus an offset, which differs between even and odd columns and is subtracted from the products of
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
  int group_shift;  // a group has 2^group_shift columns: a vector lies within one
  int64_t groups;   // of a row
  // The offsets of 2^7, whose units are bit 16, and of 2^11, whose units are bit 12; q counts from 8. They are not
  // constants, because an instruction takes a single constant, which is the mask: two instructions for each weight
  // would be a fifth of all instructions.
  unsigned even_exponent = 0x43000000;
  unsigned odd_exponent = 0x45000000;

  __device__ Raw Load(int64_t element) const { return LoadOnce(reinterpret_cast<const Raw*>(weight + element / 2)); }
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

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
// Rows of a block: a thread has one vector of each in flight, and loads and converts x once for all of them.
constexpr int kRows = 4;
constexpr int kInt8Columns = sizeof(uint4);
static_assert(kInt8Columns == 2 * kGpuVector);
// Fewest blocks per multiprocessor, which bounds the registers of a thread: 48 and 32 KiB of weights in flight.
constexpr int LeastBlocks(int batch) { return batch == 1 ? 6 : 4; }

// The products of one vector of each row with kBatch vectors of x, added to `sum`.
template <typename Weights, int kBatch>
__device__ void AddProducts(const typename Weights::Raw (&raw)[kRows], const typename Weights::X* x,
                            const int (&offset)[kBatch], int column, float (&sum)[kRows][kBatch]) {
#pragma unroll
  for (int piece = 0; piece < Weights::kColumns / Weights::kPiece; ++piece) {
    Piece<Weights::kPiece> w[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) w[r] = Weights::Weights(raw[r], piece);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      Piece<Weights::kPiece> v;
      LoadPiece(x + offset[b] + column + piece * Weights::kPiece, v);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
#pragma unroll
        for (int j = 0; j < Weights::kPiece; ++j) sum[r][b] += w[r].at[j] * v.at[j];
      }
    }
  }
}

// The same for weights with an offset and with a scale and a zero of their group.
template <typename Weights>
__device__ void AddGroupedProducts(const Weights& weights, const int64_t (&row)[kRows],
                                   const typename Weights::Raw (&raw)[kRows], const typename Weights::X* x, int column,
                                   float (&sum)[kRows][1]) {
  float scale[kRows];
  float zero[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    scale[r] = weights.Scale(row[r], column);
    zero[r] = weights.Zero(row[r], column);
  }
  float product[kRows] = {};
  float even = 0;
  float odd = 0;
#pragma unroll
  for (int piece = 0; piece < Weights::kColumns / Weights::kPiece; ++piece) {
    Piece<Weights::kPiece> v;
    LoadPiece(x + column + piece * Weights::kPiece, v);
#pragma unroll
    for (int j = 0; j < Weights::kPiece; j += 2) {
      even += v.at[j];
      odd += v.at[j + 1];
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const Piece<Weights::kPiece> w = weights.Weights(raw[r], piece);
#pragma unroll
      for (int j = 0; j < Weights::kPiece; ++j) product[r] += w.at[j] * v.at[j];
    }
  }
  const float offset = Weights::kEvenOffset * even + Weights::kOddOffset * odd;
#pragma unroll
  for (int r = 0; r < kRows; ++r) sum[r][0] += scale[r] * (product[r] - offset) + zero[r] * (even + odd);
}

__device__ void StoreOne(float* to, float value) { *to = value; }
__device__ void StoreOne(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

// Computes rows from kRows * blockIdx.x on, of the matrix of blockIdx.y, with `batch` vectors, at most kBatch of them.
template <typename Weights, int kBatch>
__global__ void __launch_bounds__(kThreads, LeastBlocks(kBatch))
    GemvRows(Weights weights, typename Weights::X* y, const typename Weights::X* x, int64_t rows, int cols, int batch,
             const int64_t* experts) {
  const int64_t matrix = experts == nullptr ? 0 : experts[blockIdx.y];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRows;
  // Indexes beyond the last row or vector repeat the last one, and are not stored.
  int64_t row[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) row[r] = matrix * rows + (first + r < rows ? first + r : rows - 1);
  int offset[kBatch];
#pragma unroll
  for (int b = 0; b < kBatch; ++b) offset[b] = (b < batch ? b : batch - 1) * cols;

  float sum[kRows][kBatch] = {};
#pragma unroll 1
  for (int column = static_cast<int>(threadIdx.x) * Weights::kColumns; column < cols;
       column += kThreads * Weights::kColumns) {
    typename Weights::Raw raw[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) raw[r] = weights.Load(row[r] * cols + column);
    if constexpr (Weights::kGrouped) {
      AddGroupedProducts(weights, row, raw, x, column, sum);
    } else {
      AddProducts<Weights>(raw, x, offset, column, sum);
    }
  }

  __shared__ float of_warp[kWarps][kRows * kBatch];
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const float of_lanes = ReduceWarp<Sum>(sum[r][b]);
      if (thread % kWarp == 0) of_warp[thread / kWarp][r * kBatch + b] = of_lanes;
    }
  }
  __syncthreads();
  const int r = thread / kBatch;
  const int b = thread % kBatch;
  if (r >= kRows || first + r >= rows || b >= batch) return;
  float all = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) all += of_warp[warp][thread];
  StoreOne(y + (static_cast<int64_t>(blockIdx.y) * batch + b) * rows + first + r,
           all * weights.RowScale(matrix * rows + first + r));
}

template <int kBatch, typename Weights>
cudaError_t Run(const Weights& weights, const GemvArguments& a, void* stream) {
  using X = typename Weights::X;
  const dim3 blocks(static_cast<unsigned>((a.rows + kRows - 1) / kRows), static_cast<unsigned>(a.chosen));
  return Launch(GemvRows<Weights, kBatch>, blocks, kThreads, stream, weights, static_cast<X*>(a.y),
                static_cast<const X*>(a.x), a.rows, static_cast<int>(a.cols), a.batch, a.experts);
}

cudaError_t RunInt8(const GemvArguments& a, void* stream) {
  const auto* const weight = static_cast<const int8_t*>(a.weight);
  const auto* const scale = static_cast<const float*>(a.scale);
  if (a.cols % kInt8Columns != 0) return Run<1>(Int8Weights<uint2, 8>{weight, scale}, a, stream);
  const Int8Weights<uint4, 8> weights{weight, scale};
  if (a.batch <= 1) return Run<1>(weights, a, stream);
  if (a.batch <= 2) return Run<2>(weights, a, stream);
  if (a.batch <= 4) return Run<4>(weights, a, stream);
  return Run<8>(Int8Weights<uint4, 4>{weight, scale}, a, stream);  // shorter pieces avoid register spills
}

cudaError_t RunInt4(const GemvArguments& a, void* stream) {
  int shift = 0;
  while ((int64_t{1} << shift) < a.group) ++shift;
  return Run<1>(Int4Weights{static_cast<const uint8_t*>(a.weight), static_cast<const __nv_bfloat16*>(a.scale),
                            static_cast<const __nv_bfloat16*>(a.zero), shift, a.cols / a.group},
                a, stream);
}

// A vector of int4 weights lies within a group, whose columns are a power of two.
bool GroupFits(const GemvArguments& a) {
  return a.group >= Int4Weights::kColumns && (a.group & (a.group - 1)) == 0 && a.cols % a.group == 0;
}

bool Fits(const GemvArguments& a) {
  return (a.type != WeightType::kInt4 || GroupFits(a)) && TakesGemv(a.type, a.batch, a.cols) && a.rows >= 1 &&
         a.rows / kRows < 0x7fffffff && a.chosen >= 1 && a.chosen <= 65535 && (a.chosen == 1 || a.experts != nullptr);
}

}  // namespace

int LaunchGemv(const GemvArguments& a, void* stream) {
  if (!Fits(a)) return cudaErrorInvalidValue;
  switch (a.type) {
    case WeightType::kFp32:
      return Run<1>(Fp32Weights{static_cast<const float*>(a.weight)}, a, stream);
    case WeightType::kBf16:
      return Run<1>(Bf16Weights{static_cast<const __nv_bfloat16*>(a.weight)}, a, stream);
    case WeightType::kInt8:
      return RunInt8(a, stream);
    case WeightType::kInt4:
      return RunInt4(a, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace roofbench::kernels
