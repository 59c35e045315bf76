// SPDX-License-Identifier: Apache-2.0
// Whether memory is there to be read.
#pragma once

#include <cstddef>

namespace roofbench {

// Whether the kernel can read the first and the last page of this memory, and some pages between them: not where a
// program protects a result, and computes it in the handler of the signal that the reader gets. True where the kernel
// does not say.
bool IsReadable(const void* begin, std::size_t bytes);

// Whether this process has memory whose pages a thread, or another process, may supply when they are read
// (userfaultfd(2)), and whether this is such.
bool ServesMemory();
bool IsServed(const void* begin, std::size_t bytes);

}  // namespace roofbench
