// SPDX-License-Identifier: Apache-2.0
// The history of LibTorch's caching allocator, in the form that Gpu returns.
#pragma once

#include <cstddef>
#include <string>

#include "lib/observe/memory/memory_history.h"

namespace roofbench {

// As Gpu::StartMemoryHistory and Gpu::FinishMemoryHistory; one history at a time in a process.
void StartCudaMemoryHistory(std::string (*site)(), std::size_t most_events);
observe::MemoryHistory FinishCudaMemoryHistory(int device);

}  // namespace roofbench
