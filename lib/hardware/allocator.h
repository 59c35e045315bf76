// SPDX-License-Identifier: Apache-2.0
// How the process gets its memory: by the system's defaults, or tuned for steps that free and allocate the same tensors
// repeatedly. The choice affects every implementation that allocates its results, and the roofs, so one choice holds
// for all.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace roofbench::hardware {

enum class Allocator {
  // Large tensors lie on huge pages, and freed memory stays with the process until its case ends, so that the next step
  // finds its pages where the last one left them (glibc; other C libraries get the huge pages alone).
  kTuned,
  // The C library's defaults, which a program gets without any tuning.
  kSystem,
};

constexpr std::string_view Name(Allocator allocator) { return allocator == Allocator::kTuned ? "tuned" : "system"; }

// Applies to LibTorch's tensors, our buffers and weights, and the streams of the roofs, from now on. LibTorch reads its
// part, THP_MEM_ALLOC_ENABLE, when it makes its first tensor: call this before that, and once per process. If the
// environment has a value that contradicts this choice, nothing is changed; returns the value that was expected.
std::optional<std::string> UseAllocator(Allocator allocator);

// Returns freed memory to the system, so that the next case starts from the same state of the memory.
void ReleaseFreedMemory();

}  // namespace roofbench::hardware
