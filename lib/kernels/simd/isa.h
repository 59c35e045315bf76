// SPDX-License-Identifier: Apache-2.0
// The instruction sets of this processor, queried once, and the choice among variants of a function by them; a test can
// restrict them.
//
// Portable kernels are written with Highway and choose their own target. Kernels with intrinsics come in separate
// files, each function with its target attribute, and stand in a table next to the portable one, from which BestVariant
// chooses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

// The function attributes of kernels with intrinsics. The compiler's own flags stay at the baseline, so that one binary
// runs on every processor.
#if defined(__x86_64__)
#define ROOFBENCH_X86 1
#define ROOFBENCH_AVX512 "avx512f,avx512bw,avx512vl,avx512dq,fma,f16c,bmi,bmi2"
#define ROOFBENCH_TARGET_AVX512 __attribute__((target(ROOFBENCH_AVX512)))
#define ROOFBENCH_TARGET_AVX512_BF16 __attribute__((target(ROOFBENCH_AVX512 ",avx512bf16")))
#define ROOFBENCH_TARGET_AVX512_VNNI __attribute__((target(ROOFBENCH_AVX512 ",avx512vnni")))
#else
#define ROOFBENCH_X86 0
#endif

namespace roofbench::kernels {

enum IsaFeature : uint32_t {
  kAvx2 = 1,          // with FMA
  kAvxVnni = 2,       // 8-bit dot products of 256 bits, with kAvx2
  kAvx512 = 4,        // F, BW, VL, DQ, with kAvx2
  kAvx512Bf16 = 8,    // bf16 dot products and conversions, with kAvx512
  kAvx512Vnni = 16,   // 8-bit dot products of 512 bits, with kAvx512
  kAmxBf16 = 32,      // tiles and their bf16 products, which the system lets this process use
  kAmxInt8 = 64,      // tiles and their 8-bit products, likewise
  kFewStreams = 128,  // reads rows faster in two streams a thread without prefetches than in eight with them
  kAvx512Fp16 = 256,  // arithmetic of 512 bits in fp16, with kAvx512
};

// Whether this processor has all of `features`, and LimitIsa does not forbid any.
bool IsaHas(uint32_t features);

// "avx512", "avx2" or "baseline": the widest vectors of IsaHas.
std::string_view WidestVectors();

// Sets of features that a processor may have. Tests take them in turn, so that they cover every row of every table.
struct IsaLevel {
  std::string_view name;
  uint32_t features;
};
inline constexpr IsaLevel kIsaLevels[] = {
    {"baseline", 0},
    {"avx2", kAvx2},
    {"avx2_vnni", kAvx2 | kAvxVnni},
    {"avx512", kAvx2 | kAvx512},
    {"avx512_vnni", kAvx2 | kAvx512 | kAvx512Vnni},
    {"avx512_bf16", kAvx2 | kAvx512 | kAvx512Bf16},
    {"everything", ~0U},
};

// One variant of a function: the IsaFeatures that it needs, and its implementation (one function, or several).
template <typename Kernel>
struct IsaVariant {
  uint32_t needs;
  Kernel kernel;
};

// The first row whose features `has` includes.
template <typename Kernel, std::size_t kRows>
constexpr std::size_t FirstVariant(const IsaVariant<Kernel> (&table)[kRows], uint32_t has) {
  std::size_t row = 0;
  while (row + 1 < kRows && (table[row].needs & ~has) != 0) ++row;
  return row;
}

// Whether the last row needs no features, and each row is the first choice at one of kIsaLevels: a test that takes
// these levels in turn covers all rows.
template <typename Kernel, std::size_t kRows>
constexpr bool IsComplete(const IsaVariant<Kernel> (&table)[kRows]) {
  if (table[kRows - 1].needs != 0) return false;
  for (std::size_t row = 0; row < kRows; ++row) {
    if (std::none_of(std::begin(kIsaLevels), std::end(kIsaLevels),
                     [&](const IsaLevel& level) { return FirstVariant(table, level.features) == row; })) {
      return false;
    }
  }
  return true;
}

// The first variant in a table of IsaVariants, the most demanding first, that this processor can run.
template <const auto& kTable>
const auto& BestVariant() {
  static_assert(IsComplete(kTable));
  return std::find_if(std::begin(kTable), std::end(kTable), [](const auto& row) { return IsaHas(row.needs); })->kernel;
}

// An instruction set that kernels written with Highway are compiled for.
struct HighwayTarget {
  std::string_view name;  // "AVX3", "AVX2", "SSE4", …
  int64_t bit;
};

// The targets that this processor can run: the one that it uses, then each narrower one.
std::vector<HighwayTarget> HighwayTargets();

// While it lives, IsaHas denies all but `allowed`, and Highway takes one target (0: the best of HighwayTargets). For
// tests, which try every variant that this processor can run; not for use while kernels run.
class LimitIsa {
 public:
  explicit LimitIsa(uint32_t allowed, int64_t highway_target = 0);
  LimitIsa(const LimitIsa&) = delete;
  LimitIsa& operator=(const LimitIsa&) = delete;
  ~LimitIsa();
};

// From now on, IsaHas grants `features` even if this processor lacks them (0: none): for a test that stands in for
// their instructions.
void GrantIsa(uint32_t features);

}  // namespace roofbench::kernels
