// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/stream_kernels_cuda.h"

#include <algorithm>

#include "lib/kernels/cuda/warp_cuda.cuh"

namespace roofbench::hardware {
namespace {

using kernels::Launch;

using Word = ulonglong2;  // the widest load of a thread: 16 bytes

constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kUnroll = 4;  // loads of a thread in flight

// Neither load stays in the caches of a multiprocessor, from which a second round would read faster than from the L2.
template <bool kStreaming>
__device__ Word Load(const Word* from) {
  return kStreaming ? __ldcs(from) : __ldcg(from);
}

template <bool kStreaming>
__device__ void Store(Word* to, Word value) {
  if (kStreaming) {
    __stcs(to, value);
  } else {
    __stcg(to, value);
  }
}

// Calls body(index, grid) `repeat` times for all words: a thread takes kUnroll of them at once, a grid apart. With
// kShifted, a block takes in each round the words that the next block had in the round before: those of another
// multiprocessor.
template <bool kShifted, typename Body>
__device__ void ForEachGroup(std::size_t words, int repeat, const Body& body) {
  const std::size_t grid = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  unsigned block = blockIdx.x;
  for (int round = 0; round < repeat; ++round) {
    for (std::size_t first = static_cast<std::size_t>(block) * blockDim.x + threadIdx.x; first < words;
         first += kUnroll * grid) {
      body(first, grid);
    }
    asm volatile("" ::: "memory");  // the next round reads again
    if (kShifted) block = block + 1 == gridDim.x ? 0 : block + 1;
  }
}

// Valid in the block's first thread.
__device__ unsigned long long SumOfBlock(unsigned long long mine) {
  __shared__ unsigned long long of_warp[kThreads / kWarp];
  for (int offset = kWarp / 2; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = mine;
  __syncthreads();
  unsigned long long all = 0;
  if (threadIdx.x == 0) {
    for (unsigned long long of_one : of_warp) all += of_one;
  }
  return all;
}

template <bool kStreaming>
__global__ void __launch_bounds__(kThreads)
    ReadStream(unsigned long long* sum, const Word* from, std::size_t words, int repeat) {
  unsigned long long mine = 0;
  ForEachGroup<true>(words, repeat, [&](std::size_t first, std::size_t grid) {
    Word loaded[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const std::size_t index = first + i * grid;
      loaded[i] = index < words ? Load<kStreaming>(from + index) : Word{0, 0};
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) mine += loaded[i].x + loaded[i].y;
  });
  // One sum per block: thousands on one address take as long as megabytes.
  const unsigned long long of_block = SumOfBlock(mine);
  if (threadIdx.x == 0) atomicAdd(sum, of_block);
}

// to[i] = change(from[i]).
template <bool kStreaming, bool kShifted, typename Change>
__device__ void TransformWords(Word* to, const Word* from, std::size_t words, int repeat, const Change& change) {
  ForEachGroup<kShifted>(words, repeat, [&](std::size_t first, std::size_t grid) {
    Word loaded[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const std::size_t index = first + i * grid;
      if (index < words) loaded[i] = Load<kStreaming>(from + index);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const std::size_t index = first + i * grid;
      if (index < words) Store<kStreaming>(to + index, change(loaded[i]));
    }
  });
}

template <bool kStreaming>
__global__ void __launch_bounds__(kThreads) CopyStream(Word* to, const Word* from, std::size_t words, int repeat) {
  TransformWords<kStreaming, true>(to, from, words, repeat, [](Word word) { return word; });
}

// Not shifted: the rounds of two blocks are unordered, and an update would be lost.
template <bool kStreaming>
__global__ void __launch_bounds__(kThreads) UpdateStream(Word* to, std::size_t words, int repeat) {
  TransformWords<kStreaming, false>(to, to, words, repeat, [](Word word) { return Word{word.x + 1, word.y + 1}; });
}

template <bool kStreaming>
__global__ void __launch_bounds__(kThreads)
    WriteStream(Word* to, std::size_t words, int repeat, unsigned long long pattern) {
  ForEachGroup<true>(words, repeat, [&](std::size_t first, std::size_t grid) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const std::size_t index = first + i * grid;
      if (index < words) Store<kStreaming>(to + index, Word{pattern, pattern});
    }
  });
}

// Launches as many blocks as the device holds at once, and no more than the work needs.
template <typename... Parameters>
cudaError_t Fill(void (*kernel)(Parameters...), std::size_t words, cudaStream_t stream,
                 std::common_type_t<Parameters>... arguments) {
  int device = 0;
  int machines = 0;
  int of_machine = 0;
  if (cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (cudaError_t error = cudaDeviceGetAttribute(&machines, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return error;
  }
  if (cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_machine, kernel, kThreads, 0);
      error != cudaSuccess) {
    return error;
  }
  constexpr std::size_t kPerBlock = static_cast<std::size_t>(kThreads) * kUnroll;
  const std::size_t useful = (words + kPerBlock - 1) / kPerBlock;
  const std::size_t at_once = static_cast<std::size_t>(machines) * static_cast<std::size_t>(of_machine);
  const auto blocks = static_cast<unsigned>(std::max<std::size_t>(1, std::min(useful, at_once)));
  return Launch(kernel, blocks, kThreads, stream, arguments...);
}

template <bool kStreaming>
cudaError_t Run(CudaStream kind, void* to, const void* from, std::size_t words, int repeat, unsigned long long pattern,
                cudaStream_t stream) {
  const auto* source = static_cast<const Word*>(from);
  auto* target = static_cast<Word*>(to);
  switch (kind) {
    case CudaStream::kRead:
      return Fill(ReadStream<kStreaming>, words, stream, static_cast<unsigned long long*>(to), source, words, repeat);
    case CudaStream::kCopy:
      return Fill(CopyStream<kStreaming>, words, stream, target, source, words, repeat);
    case CudaStream::kUpdate:
      return Fill(UpdateStream<kStreaming>, words, stream, target, words, repeat);
    case CudaStream::kWrite:
      return Fill(WriteStream<kStreaming>, words, stream, target, words, repeat, pattern);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t LaunchCudaStream(CudaStream kind, int variant, void* to, const void* from, std::size_t words, int repeat,
                             unsigned long long pattern, cudaStream_t stream) {
  return variant == 0 ? Run<false>(kind, to, from, words, repeat, pattern, stream)
                      : Run<true>(kind, to, from, words, repeat, pattern, stream);
}

}  // namespace roofbench::hardware
