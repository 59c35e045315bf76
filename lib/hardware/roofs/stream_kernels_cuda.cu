// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/roofs/stream_kernels_cuda.h"

#include <algorithm>

namespace roofbench::hardware {
namespace {

using Word = ulonglong2;  // the widest load of a thread: 16 bytes

constexpr int kThreads = 512;
constexpr int kUnroll = 4;            // loads of a thread in flight
constexpr int kBlocksPerMachine = 4;  // 2,048 threads: a full multiprocessor

template <bool kStreaming>
__device__ Word Load(const Word* from) {
  return kStreaming ? __ldcs(from) : *from;
}

template <bool kStreaming>
__device__ void Store(Word* to, Word value) {
  if (kStreaming) {
    __stcs(to, value);
  } else {
    *to = value;
  }
}

// Calls `body(index)` for this thread's words: kUnroll of them, a grid apart, in one go, as long as all of them exist.
template <typename Body>
__device__ void ForEachGroup(std::size_t words, const Body& body) {
  const std::size_t grid = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t first = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; first < words;
       first += kUnroll * grid) {
    body(first, grid);
  }
}

template <bool kStreaming>
__global__ void ReadStream(unsigned long long* sum, const Word* from, std::size_t words, int repeat) {
  unsigned long long mine = 0;
  for (int round = 0; round < repeat; ++round) {
    ForEachGroup(words, [&](std::size_t first, std::size_t grid) {
      Word loaded[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const std::size_t index = first + i * grid;
        loaded[i] = index < words ? Load<kStreaming>(from + index) : Word{0, 0};
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) mine += loaded[i].x + loaded[i].y;
    });
    asm volatile("" ::: "memory");  // the next round reads again
  }
  for (int offset = warpSize / 2; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
  if (threadIdx.x % warpSize == 0) atomicAdd(sum, mine);
}

// to[i] = change(from[i]).
template <bool kStreaming, typename Change>
__device__ void TransformWords(Word* to, const Word* from, std::size_t words, int repeat, const Change& change) {
  for (int round = 0; round < repeat; ++round) {
    ForEachGroup(words, [&](std::size_t first, std::size_t grid) {
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
    asm volatile("" ::: "memory");
  }
}

template <bool kStreaming>
__global__ void CopyStream(Word* to, const Word* from, std::size_t words, int repeat) {
  TransformWords<kStreaming>(to, from, words, repeat, [](Word word) { return word; });
}

template <bool kStreaming>
__global__ void UpdateStream(Word* to, std::size_t words, int repeat) {
  TransformWords<kStreaming>(to, to, words, repeat, [](Word word) { return Word{word.x + 1, word.y + 1}; });
}

template <bool kStreaming>
__global__ void WriteStream(Word* to, std::size_t words, int repeat, unsigned long long pattern) {
  for (int round = 0; round < repeat; ++round) {
    ForEachGroup(words, [&](std::size_t first, std::size_t grid) {
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const std::size_t index = first + i * grid;
        if (index < words) Store<kStreaming>(to + index, Word{pattern, pattern});
      }
    });
    asm volatile("" ::: "memory");
  }
}

// Enough blocks to fill the device, and no more than there is work for.
cudaError_t Blocks(std::size_t words, unsigned* blocks) {
  int device = 0;
  int machines = 0;
  if (cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (cudaError_t error = cudaDeviceGetAttribute(&machines, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return error;
  }
  const std::size_t per_block = static_cast<std::size_t>(kThreads) * kUnroll;
  const std::size_t useful = (words + per_block - 1) / per_block;
  *blocks = static_cast<unsigned>(
      std::max<std::size_t>(1, std::min(useful, static_cast<std::size_t>(machines) * kBlocksPerMachine)));
  return cudaSuccess;
}

template <bool kStreaming>
void Launch(CudaStream kind, unsigned blocks, void* to, const void* from, std::size_t words, int repeat,
            unsigned long long pattern, cudaStream_t stream) {
  const auto* source = static_cast<const Word*>(from);
  auto* target = static_cast<Word*>(to);
  switch (kind) {
    case CudaStream::kRead:
      ReadStream<kStreaming>
          <<<blocks, kThreads, 0, stream>>>(static_cast<unsigned long long*>(to), source, words, repeat);
      break;
    case CudaStream::kCopy:
      CopyStream<kStreaming><<<blocks, kThreads, 0, stream>>>(target, source, words, repeat);
      break;
    case CudaStream::kUpdate:
      UpdateStream<kStreaming><<<blocks, kThreads, 0, stream>>>(target, words, repeat);
      break;
    case CudaStream::kWrite:
      WriteStream<kStreaming><<<blocks, kThreads, 0, stream>>>(target, words, repeat, pattern);
      break;
  }
}

}  // namespace

cudaError_t LaunchCudaStream(CudaStream kind, int variant, void* to, const void* from, std::size_t words, int repeat,
                             unsigned long long pattern, cudaStream_t stream) {
  unsigned blocks = 0;
  if (cudaError_t error = Blocks(words, &blocks); error != cudaSuccess) return error;
  if (variant == 0) {
    Launch<false>(kind, blocks, to, from, words, repeat, pattern, stream);
  } else {
    Launch<true>(kind, blocks, to, from, words, repeat, pattern, stream);
  }
  return cudaGetLastError();
}

}  // namespace roofbench::hardware
