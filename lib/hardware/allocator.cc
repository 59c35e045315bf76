// SPDX-License-Identifier: Apache-2.0
#include "lib/hardware/allocator.h"

#include <malloc.h>

#include <cstdlib>

#include "lib/kernels/threading/huge_pages.h"

namespace roofbench::hardware {
namespace {

void TuneMalloc() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace

std::optional<std::string> UseAllocator(Allocator allocator) {
  const bool tuned = allocator == Allocator::kTuned;
  constexpr char kVariable[] = "THP_MEM_ALLOC_ENABLE";
  const std::string expected = tuned ? "1" : "0";
  if (const char* const given = std::getenv(kVariable); given != nullptr && given != expected) return expected;
  setenv(kVariable, expected.c_str(), /*overwrite=*/1);
  kernels::AllowHugePages(tuned);
  // Leave the defaults alone, do not set them: glibc adapts its own to the sizes of freed blocks unless they were set.
  if (tuned) TuneMalloc();
  return std::nullopt;
}

void ReleaseFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace roofbench::hardware
