// SPDX-License-Identifier: Apache-2.0
// How the process gets its memory: as the system gives it, or tuned for steps that free and allocate the same tensors
// again. It moves every implementation that allocates its results, and the roofs, so that it is one choice for all.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace roofbench::hardware {

enum class Allocator {
  // Large tensors on huge pages, and freed memory stays with the process until its case ends, so that the next step
  // finds its pages where the last one left them (glibc; other C libraries get the huge pages alone).
  kTuned,
  // The C library's defaults: what a program has that does nothing about it.
  kSystem,
};

constexpr std::string_view Name(Allocator allocator) { return allocator == Allocator::kTuned ? "tuned" : "system"; }

// For LibTorch's tensors, our buffers and weights, and the streams of the roofs, from now on. LibTorch reads its part,
// THP_MEM_ALLOC_ENABLE, when it makes its first tensor: so before that, and once a process. Where the environment has
// another value than this choice, nothing is changed; returns the value that was expected.
std::optional<std::string> UseAllocator(Allocator allocator);

// Gives what was freed back to the system: the next case shall find the memory as if this one had never been.
void ReleaseFreedMemory();

}  // namespace roofbench::hardware
