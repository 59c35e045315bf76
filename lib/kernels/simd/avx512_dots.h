// SPDX-License-Identifier: Apache-2.0
// Dot products of bytes and of bf16 in AVX-512 registers, for kernels that keep many sums. Written as instructions,
// because GCC 12 copies the sums of its intrinsics twice a step, and stores them on the stack besides where they are
// many. Empty on other processors.
#pragma once

#include <cstdint>

#include "lib/kernels/simd/avx512_lines.h"
#include "lib/kernels/simd/isa.h"

#if ROOFBENCH_X86
namespace roofbench::kernels::avx512 {

// sum += w · x in each lane of four bytes, those of w without a sign.
ROOFBENCH_TARGET_AVX512_VNNI inline void AddDot(__m512i& sum, __m512i w, __m512i x) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}

// The same with the four bytes at `x` in every lane.
ROOFBENCH_TARGET_AVX512_VNNI inline void AddDotOfFour(__m512i& sum, __m512i w, const int8_t* x) {
  struct Four {
    int8_t bytes[4];
  };
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*reinterpret_cast<const Four*>(x)));
}

// sum += w · x in each lane of two bf16.
ROOFBENCH_TARGET_AVX512_BF16 inline void AddDot(__m512& sum, __m512i w, __m512i x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
}

}  // namespace roofbench::kernels::avx512
#endif
