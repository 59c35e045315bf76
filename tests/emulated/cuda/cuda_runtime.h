// SPDX-License-Identifier: Apache-2.0
// The device's side of CUDA C++, as far as our kernels need it, for a C++ compiler.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "tests/emulated/cuda/cuda_runtime_api.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
// Blocks run one after another on one thread of the processor, of which the machine finds all such variables.
#define __shared__ static thread_local

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) ulonglong2 {
  unsigned long long x, y;
};
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

#define threadIdx (roofbench::emulated::Here().thread)
#define blockIdx (roofbench::emulated::Here().block_of_grid)
#define blockDim (roofbench::emulated::Here().block)
#define gridDim (roofbench::emulated::Here().grid)

inline void __syncthreads(const std::source_location& where = std::source_location::current()) {
  roofbench::emulated::Barrier(where);
}

namespace roofbench::emulated {

template <typename T>
T ExchangeAs(unsigned lanes, T value, unsigned lane, const std::source_location& where) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Exchange(lanes, bits, lane, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
T* Aligned(T* pointer) {
  if (reinterpret_cast<uintptr_t>(pointer) % sizeof(T) != 0) throw Fault("a vector that is not aligned");
  if (Recorder() != nullptr) Recorder()->push_back({Here().block_of_grid.x, pointer});
  return pointer;
}

}  // namespace roofbench::emulated

template <typename T>
T __shfl_xor_sync(unsigned lanes, T value, int mask,
                  const std::source_location& where = std::source_location::current()) {
  return roofbench::emulated::ExchangeAs(lanes, value, (threadIdx.x % 32) ^ static_cast<unsigned>(mask), where);
}
// Beyond the last lane a thread has its own value.
template <typename T>
T __shfl_down_sync(unsigned lanes, T value, unsigned offset,
                   const std::source_location& where = std::source_location::current()) {
  const unsigned lane = threadIdx.x % 32;
  return roofbench::emulated::ExchangeAs(lanes, value, lane + offset < 32 ? lane + offset : lane, where);
}

template <typename T>
T __ldg(const T* from) {
  return *roofbench::emulated::Aligned(from);
}
template <typename T>
T __ldcs(const T* from) {
  return __ldg(from);
}
template <typename T>
T __ldcg(const T* from) {
  return __ldg(from);
}
template <typename T>
void __stwb(T* to, T value) {
  *roofbench::emulated::Aligned(to) = value;
}
template <typename T>
void __stcs(T* to, T value) {
  __stwb(to, value);
}
template <typename T>
void __stcg(T* to, T value) {
  __stwb(to, value);
}

template <typename T>
T atomicAdd(T* to, T value) {
  const T before = *roofbench::emulated::Aligned(to);
  *to = before + value;
  return before;
}

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }

// Byte i of the result is the byte of b:a that the four bits i of `chosen` name. (Their highest would spread a sign.)
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned chosen) {
  const uint64_t both = uint64_t{b} << 32 | a;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned number = chosen >> (4 * i) & 7;
    bytes |= static_cast<unsigned>(both >> (8 * number) & 0xff) << (8 * i);
  }
  return bytes;
}

inline long long clock64() { return roofbench::emulated::TheClocks().cycles(); }
